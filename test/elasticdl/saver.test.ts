import { CheckpointSaver, type CheckpointSaverOptions } from '@holdfast/elasticdl';
import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  failure,
  filesOf,
  liveVersions,
  newBucket,
  openRun,
  type Server,
  shardOf,
  startServer,
} from './saver-job.ts';

describe('when a checkpoint is due', () => {
  test('at the multiples of checkpointSteps, and 0 is one of them', () => {
    const { saver } = startServer(newBucket(), [0, 1], { checkpointSteps: 3 });
    expect(saver.isEnabled).toBe(true);
    expect([0, 1, 2, 3, 4, 5, 6].filter((version) => saver.needToCheckpoint(version))).toEqual([0, 3, 6]);
  });

  test('with 0 steps never', () => {
    const { saver } = startServer(newBucket(), [0, 1], { checkpointSteps: 0 });
    expect(saver.isEnabled).toBe(false);
    expect([0, 1, 5].filter((version) => saver.needToCheckpoint(version))).toEqual([]);
  });
});

describe('a job of 100 versions with one server, a checkpoint at every fifth', () => {
  test('keeping 3 leaves exactly 90, 95 and 100, each with its one shard', async () => {
    const bucket = newBucket();
    await train(bucket, { keepCheckpointMax: 3 });
    expect(await liveVersions(bucket)).toEqual([100, 95, 90]);
    for (const version of [90, 95, 100]) {
      expect(Object.keys(await filesOf(bucket, version))).toEqual(['variables-0-of-1.ckpt']);
    }
    await using manager = openRun(bucket);
    expect(await manager.list()).toHaveLength(3);
    expect(bucket.keys().filter((key) => /^version_(?!90\/|95\/|100\/)/.test(key))).toEqual([]);
  });

  test.each([0, undefined])('keepCheckpointMax %s keeps all twenty', async (keepCheckpointMax) => {
    const bucket = newBucket();
    await train(bucket, { keepCheckpointMax });
    expect(await liveVersions(bucket)).toEqual(Array.from({ length: 20 }, (_, index) => 100 - 5 * index));
  });

  test('0 steps write nothing at all', async () => {
    const bucket = newBucket();
    await train(bucket, { checkpointSteps: 0, keepCheckpointMax: 3 });
    expect(bucket.keys()).toEqual([]);
  });

  test('what the second life of a job finds of the first counts too', async () => {
    const bucket = newBucket();
    await train(bucket, { keepCheckpointMax: 3 }, [1, 50]);
    await train(bucket, { keepCheckpointMax: 3, attempt: 'second' }, [51, 100]);
    // The engine keeps the version that the job resumed from, in addition to the newest ones.
    expect(await liveVersions(bucket)).toEqual([100, 95, 90, 50]);
    await train(bucket, { keepCheckpointMax: 3, attempt: 'third' }, [101, 120]);
    expect(await liveVersions(bucket)).toEqual([120, 115, 110, 100]);
  });
});

describe('what is saved', () => {
  test('the file of ElasticDL that encoding the shard makes, in either form and with either extension', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    await server.save(5);
    expect(await filesOf(bucket, 5)).toEqual({ 'variables-0-of-1.ckpt': bytesOf(5) });
    const old = new CheckpointSaver(server.manager, {
      index: 0,
      count: 1,
      checkpointSteps: 1,
      form: 'S4',
      extension: 'chkpt',
    });
    await old.save(6, shardOf(6));
    expect(await filesOf(bucket, 6)).toEqual({ 'variables-0-of-1.chkpt': bytesOf(6, 0, { form: 'S4' }) });
  });

  test('version 0 can be saved like any other', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    await server.save(0);
    expect(await filesOf(bucket, 0)).toEqual({ 'variables-0-of-1.ckpt': bytesOf(0) });
  });

  test('a function gives the shard before save returns, and is called once', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    let calls = 0;
    const saved = server.saver.save(5, () => {
      calls++;
      return shardOf(5);
    });
    expect(calls).toBe(1);
    await saved;
    expect(calls).toBe(1);
    expect(await filesOf(bucket, 5)).toEqual({ 'variables-0-of-1.ckpt': bytesOf(5) });
  });

  test('a copy that structuredClone makes is what it was, whatever is trained meanwhile', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    const trained = shardOf(5);
    const saved = server.saver.save(5, structuredClone(trained));
    for (const { data } of trained.dense.values()) data.fill(99);
    for (const { ids, values } of trained.tables.values()) {
      ids.fill(99n);
      values.fill(99);
    }
    await saved;
    expect(await filesOf(bucket, 5)).toEqual({ 'variables-0-of-1.ckpt': bytesOf(5) });
  });

  test('the same version with the same shard again is a success that sends nothing', async () => {
    await using server = startServer(newBucket(), [0, 1]);
    await server.save(5);
    expect(await server.saver.save(5, shardOf(5))).toMatchObject({
      isCommitted: true,
      wasCommittedBefore: true,
    });
  });

  test('metrics and metadata go with the checkpoint, those of all servers together', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    await using second = startServer(bucket, [1, 2]);
    await first.save(5, { metrics: { loss: 0.25 }, metadata: { data: 'day 1' } });
    await second.save(5, { metrics: { auc: 0.75, loss: 9 } });
    const [checkpoint] = await first.manager.list();
    expect(checkpoint?.metrics).toEqual({ loss: 0.25, auc: 0.75 });
    const details = await (await first.manager.latest())?.details();
    expect(details?.metadata).toEqual({ data: 'day 1' });
  });

  test('the checkpoint records the moment of each server’s shard', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    await using second = startServer(bucket, [1, 2]);
    const order: string[] = [];
    const pause = async () => {
      order.push('pause');
      return () => order.push('resume');
    };
    await first.save(5, { consistency: 'polluted', stateVersion: 4 });
    await second.save(5, { consistency: 'paused', pause });
    expect(order).toEqual(['pause', 'resume']);
    const details = await (await first.manager.get(5))?.details();
    expect(details?.writers).toMatchObject([
      { writer: 0, consistency: 'polluted', stateVersion: 4n },
      { writer: 1, consistency: 'paused', stateVersion: 5n },
    ]);
  });

  test('a table that grows to more than twice its size makes nothing suspect', async () => {
    await using server = startServer(newBucket(), [0, 1]);
    await server.save(5);
    const ids = BigInt64Array.from({ length: 100 }, (_, index) => BigInt(index));
    const rows = { dtype: 'float32', dim: 2, ids, values: new Uint8Array(100 * 8) } as const;
    await server.saver.save(10, { ...shardOf(10), tables: new Map([['embedding', rows]]) });
    expect((await server.manager.list()).map(({ isSuspect }) => isSuspect)).toEqual([false, false]);
  });
});

describe('which rules the run gets', () => {
  test('keepCheckpointMax is the newest so many, without a grace unless one is asked for', async () => {
    await using server = startServer(newBucket(), [0, 1], { keepCheckpointMax: 3 });
    await server.save(5);
    expect(await server.manager.admin.retention()).toEqual({ keepLast: 3, graceMs: 0 });
    const slow = startServerOn(server, { keepCheckpointMax: 2, graceMs: 60_000 });
    await slow.save(10, shardOf(10));
    expect(await server.manager.admin.retention()).toEqual({ keepLast: 2, graceMs: 60_000 });
  });

  test('they stand before the first version of the job is there', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2], { keepCheckpointMax: 3 });
    await using second = startServer(bucket, [1, 2], { keepCheckpointMax: 9 });
    await second.save(5);
    expect(await second.manager.admin.retention()).toBeNull();
    expect(await first.save(5)).toBe(true);
    const kinds = (await first.manager.admin.log()).map(({ kind }) => kind);
    expect(kinds).toEqual(['commit', 'policy', 'takeover']);
    expect(await first.manager.admin.retention()).toEqual({ keepLast: 3, graceMs: 0 });
  });

  test('without keepCheckpointMax the rules of the run stay; 0 removes them', async () => {
    await using server = startServer(newBucket(), [0, 1], {});
    await server.save(5);
    await server.manager.admin.setRetention({ keepEvery: 10 });
    await server.save(10);
    await startServerOn(server, {}).save(15, shardOf(15));
    expect(await server.manager.admin.retention()).toMatchObject({ keepEvery: 10n });
    await startServerOn(server, { keepCheckpointMax: 0 }).save(20, shardOf(20));
    expect(await server.manager.admin.retention()).toBeNull();
  });

  test('rules that another process sets while the job runs override those of the saver', async () => {
    await using server = startServer(newBucket(), [0, 1], { keepCheckpointMax: 3 });
    await server.save(5);
    await server.manager.admin.setRetention({ keepLast: 50 });
    await server.save(10);
    expect(await server.manager.admin.retention()).toMatchObject({ keepLast: 50 });
  });

  test('a pinned checkpoint stays', async () => {
    const bucket = newBucket();
    const server = startServer(bucket, [0, 1], { keepCheckpointMax: 1 });
    await server.save(5);
    await server.manager.admin.pin(5, 'served');
    for (const version of [10, 15, 20]) await server.save(version);
    await server.close();
    expect(await liveVersions(bucket)).toEqual([20, 5]);
  });

  test('keepBest keeps the best beside the newest', async () => {
    const bucket = newBucket();
    const keepBest = [{ metric: 'auc', mode: 'max', count: 1 }] as const;
    const server = startServer(bucket, [0, 1], { keepCheckpointMax: 2, keepBest });
    for (const [version, auc] of [
      [5, 0.7],
      [10, 0.9],
      [15, 0.8],
      [20, 0.6],
      [25, 0.5],
    ] as const) {
      await server.save(version, { metrics: { auc } });
    }
    await server.close();
    expect(await liveVersions(bucket)).toEqual([25, 20, 10]);
  });

  test('while no checkpoint has the metric of keepBest, nothing is removed', async () => {
    const bucket = newBucket();
    const keepBest = [{ metric: 'auc', mode: 'max', count: 1 }] as const;
    const server = startServer(bucket, [0, 1], { keepCheckpointMax: 1, keepBest });
    for (const version of [5, 10, 15]) await server.save(version, { metrics: { loss: 1 } });
    await server.close();
    expect(await liveVersions(bucket)).toEqual([15, 10, 5]);
  });
});

describe('evaluation', () => {
  test('what is saved for it lies in a run of its own, takes nothing’s place there or here, and follows no rule', async () => {
    const [bucket, evaluations] = [newBucket(), newBucket()];
    const evaluation = openRun(evaluations);
    const server = startServer(bucket, [0, 1], { keepCheckpointMax: 2, evaluation });
    for (const version of [5, 10, 15]) {
      await server.save(version);
      await server.saver.save(version + 1, shardOf(version + 1), { isEvaluation: true });
    }
    await server.close();
    await evaluation.close();
    expect(await liveVersions(bucket)).toEqual([15, 10]);
    expect(await liveVersions(evaluations)).toEqual([16, 11, 6]);
    expect(await filesOf(evaluations, 6)).toEqual({ 'variables-0-of-1.ckpt': bytesOf(6) });
  });

  test('without a run for it, it is refused', async () => {
    await using server = startServer(newBucket(), [0, 1]);
    expect(await failure(server.save(5, { isEvaluation: true }))).toContain(
      'InvalidArgument: this saver has no run for evaluation',
    );
  });
});

describe('what is refused', () => {
  test('a shard of another version: readers want all shards of a checkpoint to be of its version', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    expect(await failure(server.saver.save(5, shardOf(6)))).toBe(
      "InvalidArgument: version 5 cannot be saved: the shard's own version is 6",
    );
    expect(bucket.keys()).toEqual([]);
  });

  test('a shard that cannot be written: nothing is asked of the store', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    const short = { dtype: 'float32', shape: [3], data: new Uint8Array(11) } as const;
    const wrong = { ...shardOf(5), dense: new Map([['bias', short]]) };
    expect(await failure(server.saver.save(5, wrong))).toMatch(/^InvalidArgument: .*bias/);
    expect(bucket.keys()).toEqual([]);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('a metric that is %s, by its name', async (loss) => {
    await using server = startServer(newBucket(), [0, 1]);
    expect(await failure(server.save(5, { metrics: { auc: 1, loss } }))).toBe(
      `InvalidArgument: metric "loss" is ${loss}; it takes a finite number`,
    );
    expect(await server.manager.list()).toEqual([]);
  });

  test.each<[Partial<CheckpointSaverOptions>, string]>([
    [{ index: 2, count: 2 }, 'index is 2; it takes a whole number from 0 to 1'],
    [{ index: -1 }, 'index is -1'],
    [{ count: 0 }, 'count is 0; it takes a whole number from 1 to 65536'],
    [{ checkpointSteps: 0.5 }, 'checkpointSteps is 0.5'],
    [{ keepCheckpointMax: -1 }, 'keepCheckpointMax is -1; it takes a whole number from 0 on'],
    [{ keepBest: [{ metric: 'auc', mode: 'max', count: 1 }] }, 'keepBest needs a keepCheckpointMax'],
    [{ extension: 'bin' as 'ckpt' }, 'extension is "bin"; it takes ckpt, chkpt'],
    [{ form: 'S5' as 'S4' }, 'form is "S5"; it takes S4, S7'],
  ])('%o', async (wrong, message) => {
    await using manager = openRun(newBucket());
    const make = () => new CheckpointSaver(manager, { index: 0, count: 1, checkpointSteps: 5, ...wrong });
    expect(make).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
    expect(make).toThrow(message);
  });

  test('a version below what is committed, as when a job begins again from an old one without a rollback', async () => {
    await using server = startServer(newBucket(), [0, 1]);
    await server.save(50);
    expect(await failure(server.save(45))).toContain('Conflict: version 45 is not above 50');
  });

  test('a save that is stopped before its turn: nothing of it is sent, and the next is made', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    const stop = new AbortController();
    const first = server.save(5);
    const second = server.save(10, { signal: stop.signal });
    const third = server.save(15);
    stop.abort(new Error('the job is told to stop'));
    expect(await failure(second)).toContain('Aborted: ');
    await Promise.all([first, third]);
    expect(await liveVersions(bucket)).toEqual([15, 5]);
  });

  test('one that fails does not hold up those that wait behind it', async () => {
    const bucket = newBucket();
    await using server = startServer(bucket, [0, 1]);
    await server.save(50);
    const late = server.save(45);
    const next = server.save(55);
    expect(await failure(late)).toContain('Conflict');
    expect(await next).toBe(true);
    expect(await liveVersions(bucket)).toEqual([55, 50]);
  });
});

/**
 * One server counts from the first version to the last and saves when due. Then it waits for
 * background work to end.
 */
async function train(
  bucket: ReturnType<typeof newBucket>,
  options: Parameters<typeof startServer>[2],
  [first, last]: readonly [number, number] = [1, 100],
): Promise<void> {
  await using server = startServer(bucket, [0, 1], options);
  for (let version = first; version <= last; version++) {
    if (server.saver.needToCheckpoint(version)) await server.save(version);
  }
}

/** Another saver in the same life of server 0, as for a job with changed settings. */
function startServerOn({ manager }: Server, options: Partial<CheckpointSaverOptions>): CheckpointSaver {
  return new CheckpointSaver(manager, { index: 0, count: 1, checkpointSteps: 5, ...options });
}
