import { CheckpointError, type RunManager } from '@holdfast/core';
import { expect, test } from 'vitest';
import type { SaveRequest } from './api/shapes.ts';
import type { Stage } from './staging/stage.ts';
import { Writer } from './writer.ts';

const JOIN = { uri: 'memory://run', attempt: 'a', index: 0, count: 1, life: 'f'.repeat(32), pid: 1 };

test('a save that is cancelled while the agent closes leaves no record; the others leave theirs', async () => {
  const records = new Set<string>();
  const stage = {
    pathOf: () => '/none',
    prepare: async () => undefined,
    isThere: async () => true,
    seal: async (_: string, { saveId }: SaveRequest) => void records.add(saveId),
    unseal: async (_: string, saveId: string) => void records.delete(saveId),
  } as unknown as Stage;
  const manager = {
    save: ({ signal }: { signal: AbortSignal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    close: async () => undefined,
  } as unknown as RunManager;
  const parts = {
    join: JOIN,
    place: 'p',
    stage,
    rules: { roots: [], owners: [] },
    open: async () => manager,
  };
  const writer = new Writer({
    ...parts,
    ...{ onSave: () => undefined, onEnd: () => undefined },
  });
  const begin = (version: number) =>
    writer.save({ saveId: `${version}`.repeat(32), version, files: [], sealed: true });
  const first = await begin(1);
  const second = await begin(2);
  const closing = writer.close(new CheckpointError('Unavailable', 'the agent stops'));
  await second.cancelByCaller();
  await closing;
  expect([first.state, second.state]).toEqual(['uploading', 'cancelled']);
  expect([...records]).toEqual(['1'.repeat(32)]);
});

test('a directory that another program removed is made again, also in a stage that was full', async () => {
  const prepared: boolean[] = [];
  const outcomes = [true, false, false];
  let isThere = false;
  const stage = {
    isThere: async () => isThere,
    prepare: async () => {
      const isFull = outcomes.pop() === false;
      prepared.push(!isFull);
      if (isFull) throw new CheckpointError('StorageFull', 'no room');
      isThere = true;
    },
  } as unknown as Stage;
  const open = async () => ({}) as RunManager;
  const writer = new Writer({
    ...{ join: JOIN, place: 'p', stage, rules: { roots: [], owners: [] }, open },
    ...{ onSave: () => undefined, onEnd: () => undefined },
  });
  for (let count = 0; count < 5; count += 1) await writer.keepStage();
  expect(prepared).toEqual([false, false, true]);
});
