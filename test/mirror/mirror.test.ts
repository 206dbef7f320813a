/** What a mirror copies, what it finds in the destination already, and what it rejects. */

import type { ProgressEvent, RunAdmin, RunManager } from '@holdfast/core/contract';
import type { MemoryBucket } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { keysOf } from '../manager/sweep-run.ts';
import { quarantineVersion, removeVersion, rollBackTo } from './changed-runs.ts';
import { contentOf, open, saveAll, twoRuns } from './two-runs.ts';

/** The newest manifest in the store, without the fields that differ between runs. */
function manifestOf(bucket: MemoryBucket): unknown {
  const key = bucket.keys().findLast((each) => each.includes('/manifest-')) as string;
  const own = ['checksum', 'id', 'incarnation', 'receiptKey', 'receiptSha256', 'key'];
  return JSON.parse(new TextDecoder().decode(bucket.find(key)?.bytes), (name, value) =>
    own.includes(name) ? undefined : value,
  );
}

describe('a mirror', () => {
  test('has the same versions, files, writers, metrics, metadata and times of commit, in a run of its own', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n], { count: 2 });
    await saveAll(runs.from, [5n], { attempt: 'job-1', count: 3 });
    await using from = open(runs.from);
    await using to = open(runs.to);
    const result = await to.admin.mirrorFrom(from);
    expect(result.copied.map((each) => each.version)).toEqual([1n, 2n, 5n]);
    expect(result.copied[0]).toMatchObject({ fileCount: 4, sizeBytes: 140_010, reusedBytes: 0 });
    expect(result).toMatchObject({ present: [], annotated: [], skipped: [] });
    expect(await contentOf(to)).toEqual(await contentOf(from));
    expect(manifestOf(runs.to)).toEqual(manifestOf(runs.from));
    await checkInvariants(viewOfBucket(runs.to), []);
    const [latest] = await to.list();
    expect(latest).toMatchObject({ version: 5n, isLatest: true, state: 'live' });
    expect(runs.from.keys().some((key) => key.startsWith('leases/'))).toBe(false);
    const [entry] = await to.admin.log();
    expect(entry).toMatchObject({ kind: 'commit', attempt: expect.stringMatching(/^mirror-/) });
  });

  test('a second time nothing is sent, nothing is written, and so no writer is fenced', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    const before = runs.to.keys();
    await using again = open(runs.to);
    expect(await again.admin.mirrorFrom(from)).toEqual({
      copied: [],
      present: [1n, 2n],
      annotated: [],
      skipped: [],
    });
    expect(runs.to.keys()).toEqual(before);
  });

  test('what was saved since is added, in the epoch of the mirror before', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    await saveAll(runs.from, [2n], { attempt: 'job-1' });
    await using later = open(runs.to);
    const { copied, present } = await later.admin.mirrorFrom(from);
    expect([copied[0]?.id, present]).toEqual([{ lineage: 1, epoch: 1, version: 2n }, [1n]]);
    expect(await contentOf(to)).toEqual(await contentOf(from));
  });

  test('events tell of each version what is planned, its bytes, and that it is committed', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    const events: ProgressEvent[] = [];
    await to.admin.mirrorFrom(from, { onProgress: (event) => events.push(event) });
    const types = events.map((event) => event.type);
    expect(types.filter((type) => type !== 'bytes')).toEqual([
      ...['planned', 'committed', 'planned', 'committed'],
    ]);
    expect(events.filter((event) => event.type === 'bytes').at(-1)).toMatchObject({ totalBytes: 70_000 });
  });

  test('a run that has no checkpoint yet has nothing to copy', async () => {
    const runs = twoRuns();
    await using from = open(runs.from);
    await from.join();
    await using to = open(runs.to);
    expect(await to.admin.mirrorFrom(from)).toEqual({ copied: [], present: [], annotated: [], skipped: [] });
    expect(runs.to.keys()).toEqual([]);
  });

  test('a file of many writers is not mistaken for another: what each has is copied as its own', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n], { count: 20 });
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    expect(await contentOf(to)).toEqual(await contentOf(from));
  });
});

describe('which versions', () => {
  const mirrored = async (options: Parameters<RunAdmin['mirrorFrom']>[1]) => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n, 4n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    const result = await to.admin.mirrorFrom(from, options);
    return result.copied.map((each) => Number(each.version));
  };

  test('those that are named, lowest first', async () => {
    expect(await mirrored({ versions: [3, 1n] })).toEqual([1, 3]);
  });

  test('from one on, or the latest', async () => {
    expect([
      await mirrored({ since: 3 }),
      await mirrored({ since: 9 }),
      await mirrored({ latest: true }),
    ]).toEqual([...[[3, 4], [], [4]]]);
  });

  test('one that is not there is NotFound and says what there is; two ways of choosing are InvalidArgument', async () => {
    expect(await failure(mirrored({ versions: [3, 7] }))).toBe(
      'NotFound: there is no version 7 to mirror: the newest of 4 is 4',
    );
    expect(await failure(mirrored({ versions: [3], latest: true }))).toContain('InvalidArgument');
    expect(await failure(mirrored({ versions: [-1] }))).toContain('InvalidArgument');
    expect(await failure(mirrored({ versions: [1], watchIntervalMs: 1000 }))).toContain('InvalidArgument');
    expect(await failure(mirrored({ watchIntervalMs: 99 }))).toContain('milliseconds from 100 to 86400000');
    expect(await failure(mirrored({ watchIntervalMs: Number.NaN }))).toContain('watchIntervalMs is NaN');
  });

  test('not those that are quarantined, retired, or rolled back', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n]);
    await quarantineVersion(runs.from, 2n, 'bad disk');
    await rollBackTo(runs.from, 1n);
    await saveAll(runs.from, [3n], { attempt: 'job-1' });
    await using from = open(runs.from);
    await using to = open(runs.to);
    expect((await to.admin.mirrorFrom(from)).copied.map((each) => each.version)).toEqual([1n, 3n]);
    expect((await (await to.get(3n))?.details())?.files.length).toBe(2);
    await checkInvariants(viewOfBucket(runs.to), []);
  });
});

describe('what is there already', () => {
  test('with other content is a Conflict, and nothing is written', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await saveAll(runs.to, [1n], { attempt: 'another' });
    await using from = open(runs.from);
    await using to = open(runs.to);
    const before = runs.to.keys();
    expect(await failure(to.admin.mirrorFrom(from))).toBe(
      'Conflict: memory://from cannot be mirrored into memory://to: version 1 is here already, with other content: writer 0 has other files or empty directories',
    );
    expect(runs.to.keys()).toEqual(before);
  });

  test.each([
    ['number of writers', { count: 2 }, { buffers: {} }, '2 writers, not 1'],
    ['metrics', {}, { metrics: { loss: 9 } }, 'the metrics differ'],
    ['metadata', {}, { metadata: {} }, 'the metadata differ'],
  ])('another %s is a Conflict too', async (_, saved, other, message) => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n], saved);
    await using from = open(runs.from);
    const { files = [], metrics, metadata } = (await (await from.get(1))?.details()) ?? {};
    const buffers = Object.fromEntries(files.map((file) => [file.name, new Uint8Array(file.sizeBytes)]));
    await from.restore({ version: 1, to: buffers });
    await using to = open(runs.to);
    await to.save({
      version: 1,
      buffers,
      metrics,
      metadata,
      ...other,
      ...('buffers' in other && { buffers }),
    });
    expect(await failure(to.admin.mirrorFrom(from))).toContain(message);
  });

  test('a version that is too old to be committed is passed over, unless it is asked for or is the latest', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n, 3n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from, { latest: true });
    const reason = 'it is not above 3, the highest that was committed here';
    const events: ProgressEvent[] = [];
    expect(await to.admin.mirrorFrom(from, { onProgress: (event) => events.push(event) })).toEqual({
      ...{ copied: [], present: [3n], annotated: [] },
      skipped: [
        { version: 1n, reason },
        { version: 2n, reason },
      ],
    });
    expect(events.map((event) => event.type)).toEqual(['skipped', 'skipped']);
    expect(await failure(to.admin.mirrorFrom(from, { versions: [2] }))).toContain(
      'Conflict: memory://from cannot be mirrored into memory://to: version 2 cannot be committed',
    );
    await rollBackTo(runs.from, 2n);
    expect(await failure(to.admin.mirrorFrom(from, { latest: true }))).toContain(
      'version 2 cannot be committed',
    );
  });

  test('a version that was removed there by retention does not come back', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    await removeVersion(runs.to, 1n);
    expect(await to.admin.mirrorFrom(from)).toMatchObject({
      copied: [],
      present: [2n],
      annotated: [],
      skipped: [{ version: 1n }],
    });
  });

  test('one that is quarantined there is passed over with its reason', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    await quarantineVersion(runs.to, 2n, 'bad disk');
    expect((await to.admin.mirrorFrom(from)).skipped).toEqual([
      { version: 2n, reason: 'it is quarantined here: bad disk' },
    ]);
  });

  test('the same version of another lineage of the source is a Conflict', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n, 2n]);
    await using from = open(runs.from);
    await using to = open(runs.to);
    await to.admin.mirrorFrom(from);
    await rollBackTo(runs.from, 1n);
    await saveAll(runs.from, [2n], { attempt: 'job-1' });
    expect(await failure(to.admin.mirrorFrom(from))).toContain(
      'version 2 is here already, with other content',
    );
  });
});

describe('what is refused', () => {
  test('a run cannot be mirrored into itself, by whatever name', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    await using from = open(runs.from);
    await using to = open(runs.from);
    expect(await failure(to.admin.mirrorFrom(from))).toContain('InvalidArgument');
    expect(await failure(to.admin.mirrorFrom(to))).toContain('both are the same run');
  });

  test('where nothing was ever saved there is no run to copy from', async () => {
    const runs = twoRuns();
    await using from = open(runs.from);
    await using to = open(runs.to);
    expect(await failure(to.admin.mirrorFrom(from))).toBe('NotFound: there is no run at memory://from');
  });

  test.each([{}, { watchIntervalMs: 1000 }])(
    'a run whose catalog is lost is not taken for none: %o',
    async (options) => {
      const runs = twoRuns();
      await saveAll(runs.from, [1n]);
      for (const key of keysOf(runs.from, 'catalog/')) runs.from.remove(key);
      await using from = open(runs.from);
      await using to = open(runs.to);
      expect(await failure(to.admin.mirrorFrom(from, options))).toMatch(
        /^StoreRegressed: .*: the catalog is lost/,
      );
    },
  );

  test('a manager that is not from this package', async () => {
    const runs = twoRuns();
    await using to = open(runs.to);
    const stranger = { uri: 'memory://other' } as RunManager;
    expect(await failure(to.admin.mirrorFrom(stranger))).toContain('InvalidArgument');
  });

  test('a manager that is closed', async () => {
    const runs = twoRuns();
    await saveAll(runs.from, [1n]);
    const from = open(runs.from);
    await from.close();
    await using to = open(runs.to);
    expect(await failure(to.admin.mirrorFrom(from))).toBe('Aborted: the manager was closed');
  });
});
