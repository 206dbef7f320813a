/** An agent over a long time: a day of saves, and clocks that are moved. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test, vi } from 'vitest';
import { newRun, TestAgent } from './agent-run.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const SAVE_BYTES = 512 * 1024;
/** A save each forty minutes. */
const SAVES_OF_A_DAY = 36;

async function heapBytes(): Promise<number> {
  for (let count = 0; count < 3; count += 1) {
    collectGarbage();
    await new Promise(setImmediate);
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test('a day of saves leaves no descriptor, few records, and no memory behind', async () => {
  await using agent = await TestAgent.start();
  // On the disk: a store in memory would be in the memory of this process too.
  const trainer = await agent.trainer(pathToFileURL(join(agent.directory, 'runs')).href);
  await trainer.listen();
  const looks: { heapBytes: number; descriptors: number; records: number }[] = [];
  for (let version = 1; version <= SAVES_OF_A_DAY; version += 1) {
    const segment = trainer.staged('model.bin', Buffer.alloc(SAVE_BYTES, version));
    const { state } = await trainer.save(version, { files: [segment] });
    expect(state).toBe('committed');
    if (version % (SAVES_OF_A_DAY / 3) !== 0) continue;
    agent.log.length = 0;
    trainer.events.length = 0;
    const descriptors = readdirSync('/proc/self/fd').length;
    const records = readdirSync(trainer.stage).filter((name) => !name.startsWith('segment-')).length;
    expect(trainer.sealed()).toEqual([]);
    looks.push({ heapBytes: await heapBytes(), descriptors, records });
  }
  const [first, second, third] = looks;
  // Those of the newest 64 commits stay.
  expect(third?.records).toBe(1 + Math.min(SAVES_OF_A_DAY, 64));
  expect(third?.descriptors).toBeLessThanOrEqual((first?.descriptors ?? 0) + 2);
  // As much as if the bytes of each save stayed.
  const leakedBytes = (SAVES_OF_A_DAY / 3) * SAVE_BYTES;
  expect((third?.heapBytes ?? 0) - (second?.heapBytes ?? 0)).toBeLessThan(leakedBytes / 3);
});

test('clocks that are moved by years end no wait, drop no trainer, and lose no save', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  try {
    await using agent = await TestAgent.start();
    const run = newRun();
    const two = [0, 1].map((index) => agent.trainer(run, { index, count: 2 }));
    const [zero, one] = await Promise.all(two);
    if (!zero || !one) throw new Error('both have joined');
    await zero.listen();
    await one.listen();
    const now = Date.now();
    for (const [index, years] of [10, -10, 0, 30, -30].entries()) {
      const version = index + 1;
      const files = (trainer: typeof zero) => [trainer.staged(`of-${trainer === zero ? 0 : 1}`)];
      const { body } = await zero.begin(version, { files: files(zero), timeoutMs: 60_000 });
      const waiting = zero.ended(body.saveId as string);
      vi.setSystemTime(now + years * 365 * 24 * 60 * 60_000);
      expect((await one.save(version, { files: files(one), timeoutMs: 60_000 })).state).toBe('committed');
      expect((await waiting).state).toBe('committed');
    }
    const { body } = await agent.call('latest', { query: { uri: run } });
    expect(body.version).toBe('5');
    expect((await agent.call('status')).body.writers).toMatchObject([
      { isConnected: true },
      { isConnected: true },
    ]);
  } finally {
    vi.useRealTimers();
  }
});
