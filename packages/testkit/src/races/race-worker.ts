/**
 * One process of a race. It carries out its parent's orders one at a time, and ends when ordered to
 * close.
 */

import { type ObjectStore, systemClock, systemRandom } from '@holdfast/core/contract';
import { crc32c } from '../crc32c.ts';
import { PatientClient } from '../trials/patient-client.ts';
import type { RaceAnswer, RaceOrder, StoreModule } from './race-messages.ts';

const BYTES_MAX = 64 * 1024;

let store: ObjectStore | undefined;

process.on('message', (order: RaceOrder) => {
  void carryOut(order).then(
    (answer) => send(answer, order.type === 'close'),
    (error: unknown) => send({ type: 'failed', message: String(error) }, false),
  );
});

async function carryOut(order: RaceOrder): Promise<RaceAnswer> {
  if (order.type === 'open') {
    store = await open(order.store);
    return { type: 'done' };
  }
  if (store === undefined) throw new Error('no store was opened');
  const opened = store;
  switch (order.type) {
    case 'create': {
      const { key, texts } = order;
      return {
        type: 'outcomes',
        outcomes: await Promise.all(texts.map((text) => create(opened, key, text))),
      };
    }
    case 'read': {
      const { bytes } = await opened.get(order.key, { maxBytes: BYTES_MAX });
      return { type: 'text', text: new TextDecoder().decode(bytes) };
    }
    case 'close': {
      await opened.deleteMany(order.keys);
      await opened.close();
      return { type: 'done' };
    }
  }
}

async function open({ module, exportName, args }: StoreModule): Promise<ObjectStore> {
  const exported: unknown = (await import(module))[exportName];
  if (typeof exported !== 'function') throw new Error(`${module} exports no function ${exportName}`);
  return (await exported(...args)) as ObjectStore;
}

async function create(opened: ObjectStore, key: string, text: string): Promise<string> {
  try {
    const clock = systemClock;
    const client = new PatientClient(opened, {
      clock,
      random: systemRandom,
      onRepeat: () => undefined,
      crc32c,
    });
    return await client.create(key, new TextEncoder().encode(text));
  } catch (error) {
    return String(error);
  }
}

function send(answer: RaceAnswer, isLast: boolean): void {
  process.send?.(answer, () => {
    if (isLast) process.disconnect();
  });
}
