import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { crc32c } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { contentOf, interfered } from '../mirror/two-runs.ts';
import { bytes, failure, newBucket, open } from './memory-run.ts';

async function savedRun(versions: readonly number[] = [1, 2, 3]) {
  const bucket = newBucket();
  const manager = open(bucket);
  for (const version of versions) {
    const metrics = { loss: 1 / version };
    await manager.save({ version, buffers: { a: bytes(300_000, version), b: bytes(7) }, metrics });
  }
  return { bucket, manager };
}

const fresh = () => new MemoryBucket({ crc32c, name: 'fork' });

describe('fork', () => {
  test('one version, with its files and metrics, begins a run of its own, and the job goes on from there', async () => {
    const { manager: source } = await savedRun();
    const bucket = fresh();
    await using target = open(bucket);
    const result = await target.admin.forkFrom(source, { version: 2 });
    expect(result).toMatchObject({
      from: { lineage: 1, version: 2n },
      id: { lineage: 1, epoch: 1 },
      version: 2n,
      sizeBytes: 300_007,
      fileCount: 2,
      reusedBytes: 0,
    });
    const original = (await contentOf(source)).filter((each) => (each as { version: bigint }).version === 2n);
    expect(await contentOf(target)).toEqual(original);
    const { runId } = await source.admin.overview();
    const takeover = (await target.admin.log()).find(({ kind }) => kind === 'takeover');
    expect(takeover).toMatchObject({
      kind: 'takeover',
      reason: `fork of version 2 (lineage 1) of ${source.uri}`,
      copyOf: { runId, lineage: 1 },
    });
    await using job = open(bucket);
    await job.save({ version: 3, buffers: { a: bytes(5) } });
    expect((await job.admin.log({ limit: 1 }))[0]).toMatchObject({ copyOf: null, reason: '' });
    expect((await source.latest())?.version).toBe(3n);
    expect((await job.list()).map(({ version }) => version)).toEqual([3n, 2n]);
  });

  test('without a version the latest; inside one store no payload byte passes through the process', async () => {
    const { bucket: from } = await savedRun();
    let payloadReads = 0;
    const copying = (bucket: MemoryBucket) => {
      const store = new MemoryStore(bucket, { copiesObjects: true });
      const readInto = store.readInto.bind(store);
      store.readInto = (...args) => {
        payloadReads += 1;
        return readInto(...args);
      };
      return store;
    };
    await using source = open(from, { store: copying(from) });
    const to = fresh();
    await using target = open(to, { store: copying(to) });
    expect((await target.admin.forkFrom(source)).version).toBe(3n);
    expect(payloadReads).toBe(0);
  });

  test('interrupted before its commit it goes on when it is repeated', async () => {
    const { manager: source } = await savedRun();
    const bucket = fresh();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    const stop = new AbortController();
    store.create = async (key, ...rest) => {
      if (key.includes('/receipts/')) stop.abort();
      return create(key, ...rest);
    };
    await using stopped = open(bucket, { store });
    const forking = failure(stopped.admin.forkFrom(source, { version: 2, signal: stop.signal }));
    expect(await forking).toContain('OutcomeUnknown: it is not known whether version 2 was committed');
    await using target = open(bucket);
    expect(await target.admin.forkFrom(source, { version: 2 })).toMatchObject({
      version: 2n,
      reusedBytes: 300_007,
    });
  });

  test('a run that holds checkpoints, or has held some, or is the same one, is refused before anything is sent', async () => {
    const { bucket, manager: source } = await savedRun();
    const other = fresh();
    await using target = open(other);
    await target.save({ version: 9, buffers: { a: bytes(1) } });
    const before = other.keys();
    expect(await failure(target.admin.forkFrom(source))).toBe(
      'Conflict: memory://unnamed cannot be forked into memory://fork: it already holds version 9',
    );
    expect(other.keys()).toEqual(before);
    await using again = open(bucket);
    expect(await failure(again.admin.forkFrom(source))).toMatch(/^InvalidArgument: .*both are the same run/);
  });

  test('two at once into one place: the one that joins later finds what the first has made, and is refused', async () => {
    const { manager: source } = await savedRun();
    const bucket = new MemoryBucket({ crc32c, name: 'to' });
    await using first = open(bucket);
    const isCatalog = (_: string, key: string) => key.startsWith('catalog/');
    const store = interfered(bucket, isCatalog, () => first.admin.forkFrom(source, { version: 1 }));
    await using second = open(bucket, { store });
    const refused =
      'Conflict: memory://unnamed cannot be forked into memory://to: it already holds version 1';
    expect(await failure(second.admin.forkFrom(source, { version: 2 }))).toBe(refused);
    expect((await second.list()).map(({ version }) => version)).toEqual([1n]);
  });

  test('a source without a run, without the version, or of another library is said', async () => {
    const { manager: source } = await savedRun();
    await using target = open(fresh());
    await using nothing = open(newBucket());
    expect(await failure(target.admin.forkFrom(nothing))).toBe(
      'NotFound: there is no run at memory://unnamed',
    );
    expect(await failure(target.admin.forkFrom(source, { version: 8 }))).toContain(
      'NotFound: there is no version 8: the newest of 3 that can be restored is 3',
    );
    expect(await failure(target.admin.forkFrom({ ...source, admin: { ...source.admin } }))).toContain(
      'InvalidArgument',
    );
    expect(await target.list()).toEqual([]);
  });

  test('a damaged source is Corrupt, and nothing is committed', async () => {
    const { bucket, manager: source } = await savedRun([1]);
    const key = bucket.keys().find((each) => each.endsWith('/a')) as string;
    bucket.damage(key, (data) => data.with(5, (data[5] as number) ^ 1));
    await using target = open(fresh());
    expect(await failure(target.admin.forkFrom(source))).toContain(
      'Corrupt: version 1 of memory://unnamed is damaged',
    );
    expect(await target.list()).toEqual([]);
  });
});
