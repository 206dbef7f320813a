import { crc32c, createCheckpointManager, isCheckpointError, type RunManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bestCheckpoint, rankCheckpoints } from './best-checkpoint.ts';

describe('bestCheckpoint', () => {
  test('the lowest or the highest, as the mode says', async () => {
    await using run = await runOf(
      [1, { auc: 0.7, loss: 3 }],
      [2, { auc: 0.9, loss: 2 }],
      [3, { auc: 0.8, loss: 1 }],
    );
    expect((await bestCheckpoint(run, { metric: 'auc', mode: 'max' }))?.version).toBe(2n);
    expect((await bestCheckpoint(run, { metric: 'loss', mode: 'min' }))?.version).toBe(3n);
  });

  test('the newer one of equals; checkpoints without the metric do not count', async () => {
    await using run = await runOf([1, { auc: 0.7 }], [2, { auc: 0.7 }], [3, {}], [4, { loss: 1 }]);
    expect((await bestCheckpoint(run, { metric: 'auc', mode: 'max' }))?.version).toBe(2n);
  });

  test('all of them, best first, and of equals the newer before the older', async () => {
    await using run = await runOf(
      [1, { auc: 0.5 }],
      [2, { auc: 0.7 }],
      [3, {}],
      [4, { auc: 0.5 }],
      [5, { auc: 0.6 }],
    );
    const versions = async (mode: 'min' | 'max') =>
      (await rankCheckpoints(run, { metric: 'auc', mode })).map(({ version }) => Number(version));
    expect(await versions('max')).toEqual([2, 5, 4, 1]);
    expect(await versions('min')).toEqual([4, 1, 5, 2]);
  });

  test('values at or below zero count like any others', async () => {
    await using run = await runOf([1, { gain: -2 }], [2, { gain: 0 }], [3, { gain: -1 }]);
    expect((await bestCheckpoint(run, { metric: 'gain', mode: 'max' }))?.version).toBe(2n);
    expect((await bestCheckpoint(run, { metric: 'gain', mode: 'min' }))?.version).toBe(1n);
  });

  test('null when there is no checkpoint at all', async () => {
    await using run = await runOf();
    expect(await bestCheckpoint(run, { metric: 'auc', mode: 'max' })).toBeNull();
  });

  test('what a rollback left behind is not chosen, nor what is quarantined or retired', async () => {
    await using run = await runOf([1, { auc: 0.5 }], [2, { auc: 0.9 }]);
    await run.admin.rollback({ to: 1, reason: 'version 2 was trained on the wrong data' });
    expect((await bestCheckpoint(run, { metric: 'auc', mode: 'max' }))?.version).toBe(1n);

    const bucket = new MemoryBucket({ crc32c });
    await using other = open(bucket);
    for (const version of [1, 2, 3]) await saveVersion(other, version, { auc: 1 - version / 10 });
    const [damaged] = bucket.keys().filter((key) => /^version_1\/.*weights/.test(key));
    bucket.damage(damaged as string, () => Uint8Array.of(0));
    await other.admin.verify({ version: 1, quarantine: true });
    expect((await bestCheckpoint(other, { metric: 'auc', mode: 'max' }))?.version).toBe(2n);
    await other.admin.collect({ policy: { keepLast: 1 }, force: true });
    expect((await other.list()).map(({ version, state }) => `${version} ${state}`)).toEqual([
      '3 live',
      '2 retiring',
      '1 quarantined',
    ]);
    expect((await bestCheckpoint(other, { metric: 'auc', mode: 'max' }))?.version).toBe(3n);
  });

  test('a metric that no checkpoint has is refused, and those that there are are named', async () => {
    await using run = await runOf([1, { loss: 1, acc: 2 }], [2, { auc: 0.7 }]);
    const unknown = bestCheckpoint(run, { metric: 'f1', mode: 'max' });
    expect(await failure(unknown)).toBe(
      'InvalidArgument: no checkpoint has the metric "f1"; there are: acc, auc, loss',
    );
    // A property that every object has is not a metric.
    expect(await failure(bestCheckpoint(run, { metric: 'constructor', mode: 'max' }))).toContain(
      'no checkpoint has',
    );
  });

  test('without any metric, and with more than ten, the message says so', async () => {
    await using none = await runOf([1, {}]);
    expect(await failure(bestCheckpoint(none, { metric: 'auc', mode: 'max' }))).toContain(
      'there are no metrics',
    );
    const twelve = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`m${10 + index}`, index]));
    await using many = await runOf([1, twelve]);
    expect(await failure(bestCheckpoint(many, { metric: 'auc', mode: 'max' }))).toContain(
      'm19, … (12 in all)',
    );
  });

  test('an unknown mode, and a metric without a name, are refused before any request', async () => {
    await using run = await runOf();
    const upward = { metric: 'auc', mode: 'up' as 'max' };
    expect(await failure(bestCheckpoint(run, upward))).toBe(
      'InvalidArgument: the mode of metric "auc" is "up"; it takes min (low values are good) or max',
    );
    expect(await failure(bestCheckpoint(run, { metric: '', mode: 'max' }))).toContain('pass its name');
  });
});

function open(bucket: MemoryBucket): RunManager {
  return createCheckpointManager({
    store: new MemoryStore(bucket),
    settings: { bufferBytes: 16 * 1024 * 1024 },
  });
}

async function saveVersion(run: RunManager, version: number, metrics: Record<string, number>) {
  await run.save({ version, buffers: { weights: Uint8Array.of(version) }, metrics });
}

async function runOf(...versions: [number, Record<string, number>][]): Promise<RunManager> {
  const run = open(new MemoryBucket({ crc32c }));
  for (const [version, metrics] of versions) await saveVersion(run, version, metrics);
  return run;
}

async function failure(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isCheckpointError(error)) return `${error.code}: ${error.message}`;
  throw new Error('it did not fail as it should', { cause: error });
}
