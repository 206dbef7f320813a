import { randomUUID } from 'node:crypto';
import { openCheckpointManager } from '@holdfast/stores';
import { expect, it } from 'vitest';
import { pausingManager } from './pausing-manager.ts';

it('stops the saves it is told to in the middle of a file, and lets them go on; others pass', async () => {
  await using manager = await openCheckpointManager(`memory://${randomUUID()}`, { attempt: 'a' });
  const reached = Promise.withResolvers<void>();
  const told = Promise.withResolvers<void>();
  const pausing = pausingManager(
    manager,
    (version) => version === 2,
    () => {
      reached.resolve();
      return told.promise;
    },
  );
  const chunks = [Uint8Array.of(1, 2, 3), Uint8Array.of(4)];
  const files = () => ({
    'a.bin': (async function* () {
      yield* chunks;
    })(),
  });

  expect((await pausing.save({ version: 1, files: files() })).isCommitted).toBe(true);
  const saving = pausing.save({ version: 2, files: files() });
  await reached.promise;
  expect((await pausing.latest())?.version).toBe(1n);
  told.resolve();
  expect((await saving).isCommitted).toBe(true);
  const restored = new Uint8Array(4);
  await pausing.restore({ version: 2, to: { 'a.bin': restored } });
  expect([...restored]).toEqual([1, 2, 3, 4]);
});
