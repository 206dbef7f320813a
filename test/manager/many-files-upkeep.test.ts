/**
 * Maintenance of checkpoints with many files: verify, fsck, sweeps, references, copies, rebuilds.
 */

import { crc32c, type RunManager, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { openMany, partsOf, saveMany } from './many-files.ts';
import { failure, newBucket } from './memory-run.ts';

const keysOf = (bucket: MemoryBucket, ...parts: readonly string[]) =>
  bucket.keys().filter((key) => parts.every((part) => key.includes(part)));
const only = (bucket: MemoryBucket, ...parts: readonly string[]) => keysOf(bucket, ...parts)[0] ?? '';
const flip = (bucket: MemoryBucket, key: string) =>
  bucket.damage(key, (data) => data.map((byte, at) => (at === data.length >> 1 ? byte ^ 1 : byte)));

async function using<T>(bucket: MemoryBucket, work: (manager: RunManager) => Promise<T>): Promise<T> {
  const { manager } = openMany(bucket);
  try {
    return await work(manager);
  } finally {
    await manager.close();
  }
}

async function run(versions = [1]): Promise<MemoryBucket> {
  const bucket = newBucket();
  await saveMany(bucket, { versions });
  return bucket;
}

const RECORDS: readonly (readonly [string, readonly string[]])[] = [
  ['receipt', ['version_2/', '/receipts/1.']],
  ['file list', ['version_2/', '/files/1.']],
];

describe('verify', () => {
  test.each([0, 1, 2] as const)(
    'finds nothing wrong at level %i, and says how many files it looked at',
    async (level) => {
      const bucket = await run();
      const result = await using(bucket, (manager) => manager.admin.verify({ level }));
      expect(result).toMatchObject({ fileCount: 30, problems: [] });
      expect(result.bytesRead).toBe(level === 0 ? 0 : 90);
    },
  );

  test.each(RECORDS)(
    'names a %s that is damaged or gone, and looks at all the other files',
    async (_, parts) => {
      const bucket = await run([1, 2]);
      const key = only(bucket, ...parts);
      flip(bucket, key);
      flip(bucket, only(bucket, 'version_2/', '/w2/part-09'));
      const names = async () =>
        (await using(bucket, (manager) => manager.admin.verify({ version: 2 }))).problems.map(
          ({ name }) => name,
        );
      expect(await names()).toEqual([key, 'w2/part-09']);
      bucket.remove(key);
      expect(await names()).toEqual([key, 'w2/part-09']);
    },
  );

  test('names a payload that is missing or has another size', async () => {
    const bucket = await run();
    bucket.remove(only(bucket, '/w1/part-03'));
    bucket.damage(only(bucket, '/w2/part-08'), (data) => data.subarray(1));
    const { problems } = await using(bucket, (manager) => manager.admin.verify({}));
    expect(problems.map(({ name }) => name)).toEqual(['w1/part-03', 'w2/part-08']);
  });
});

describe('a record that is damaged', () => {
  test.each(RECORDS)(
    '%s: a restore falls back, and does not say that there is no such file',
    async (_, parts) => {
      const bucket = await run([1, 2]);
      const key = only(bucket, ...parts);
      flip(bucket, key);
      const names = Object.keys(partsOf(1, 10));
      const to = Object.fromEntries(names.map((name) => [name, new Uint8Array(3)]));
      expect(await using(bucket, (manager) => failure(manager.restore({ to })))).toContain(key);
      const restored = await using(bucket, (manager) => manager.restore({ to, onCorrupt: 'fallback' }));
      expect([restored.version, to]).toEqual([1n, partsOf(1, 10)]);
    },
  );

  test.each(RECORDS)(
    '%s: fsck names it; no sweep deletes anything, until the version is quarantined',
    async (_, parts) => {
      const bucket = await run([1, 2]);
      const key = only(bucket, ...parts);
      // The objects of version 3 are garbage from now on.
      await using(bucket, (manager) => manager.join());
      bucket.insert('version_3/1.1/files/0.0-0123456789abcdef.json', new Uint8Array(3));
      flip(bucket, key);
      const problems = async () =>
        (await using(bucket, (manager) => manager.admin.fsck())).problems
          .map((each) => `${each.kind} ${each.key}`)
          .filter((each) => !each.includes('writers/'));
      expect(await problems()).toEqual([`damaged ${key}`]);
      const before = bucket.keys();
      expect(await using(bucket, (manager) => failure(manager.admin.collect({})))).toContain(
        'nothing is deleted',
      );
      expect(bucket.keys()).toEqual(before);
      await using(bucket, (manager) => manager.admin.verify({ version: 2, quarantine: true }));
      expect(await problems()).toEqual([
        `damaged ${key}`,
        'garbage version_3/1.1/files/0.0-0123456789abcdef.json',
      ]);
      await using(bucket, (manager) => manager.admin.collect({}));
      expect(keysOf(bucket, 'version_3/')).toEqual([]);
      expect(keysOf(bucket, 'version_2/')).toEqual(before.filter((each) => each.startsWith('version_2/')));
    },
  );
});

describe('a sweep', () => {
  test('keeps receipts and file lists of what is live, and deletes payloads, file lists, receipts, manifests of what is not', async () => {
    const bucket = await run([1, 2, 3]);
    const before = bucket.keys();
    const { manager, calls } = openMany(bucket, {
      retention: { keepLast: 1, graceMs: 0 },
      clock: systemClock,
    });
    await manager.admin.collect({ force: true });
    const kept = (key: string) => !key.startsWith('version_1/') && !key.startsWith('version_2/');
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual(
      before.filter((key) => key.startsWith('version_') && kept(key)),
    );
    const first = (part: string) =>
      calls.findIndex(({ operation, key }) => operation === 'deleteMany' && key.includes(part));
    const order = ['/w0/', '/files/', '/receipts/', '/manifest-'].map(first);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order).not.toContain(-1);
  });

  test('takes the file lists of a life that a newer one has superseded, not those of a version that can be finished', async () => {
    const bucket = newBucket();
    const position = { index: 0, count: 3 };
    for (const seed of [0, 1]) {
      const { manager } = openMany(bucket, { attempt: 'job', writer: position });
      await manager.save({ version: 2, buffers: partsOf(0, 10, seed), noWait: true });
    }
    const lists = (life: string) => keysOf(bucket, `version_2/1.1/files/${life}-`).length;
    expect([lists('0.0'), lists('0.1')]).toEqual([3, 3]);
    await using(bucket, (manager) => manager.admin.collect({}));
    expect([lists('0.0'), lists('0.1')]).toEqual([0, 3]);
  });
});

describe('a life that delivers once more, and reads what it had delivered', () => {
  const saveOf = (manager: RunManager) => manager.save({ version: 1, buffers: partsOf(0, 10), noWait: true });

  test('I7: is Fenced where a later life counts, and its lists are swept', async () => {
    const bucket = newBucket();
    const writer = { index: 0, count: 2 };
    const supersede = async () => {
      const later = openMany(bucket, { attempt: 'job', writer }).manager;
      await saveOf(later);
      await later.close();
      await using(bucket, (manager) => manager.admin.collect({}));
      expect(keysOf(bucket, '/files/0.0-')).toEqual([]);
    };
    const store = storeThatHolds(bucket, 'version_1/1.1/files/0.0-', supersede);
    const { manager } = openMany(bucket, { attempt: 'job', writer, store, clock: systemClock });
    await saveOf(manager);
    expect(await failure(saveOf(manager))).toMatch(/^Fenced: /);
    await manager.close();
  });

  test('I9: is told of damage where no other life counts', async () => {
    const bucket = newBucket();
    const lose = async () => {
      for (const key of keysOf(bucket, '/files/0.0-')) bucket.remove(key);
    };
    const store = storeThatHolds(bucket, 'version_1/1.1/files/0.0-', lose);
    const writer = { index: 0, count: 2 };
    const { manager } = openMany(bucket, { attempt: 'job', writer, store, clock: systemClock });
    await saveOf(manager);
    expect(await failure(saveOf(manager))).toMatch(/^Corrupt: .*files\/0\.0-.* is missing/);
    await manager.close();
  });
});

/** `act` runs before a key like this is read for the first time. */
function storeThatHolds(bucket: MemoryBucket, start: string, act: () => Promise<void>): MemoryStore {
  const store = new MemoryStore(bucket);
  const get = store.get.bind(store);
  let acting: Promise<void> | undefined;
  store.get = async (...call) => {
    if (call[0].startsWith(start)) {
      acting ??= act();
      await acting;
    }
    return get(...call);
  };
  return store;
}

describe('unchanged files', () => {
  test('are referred to if the same writer had them; only its own records of the base are read', async () => {
    const bucket = newBucket();
    await saveMany(bucket, { versions: [0, 1], seed: 1 });
    const { manager, calls } = openMany(bucket, { attempt: 'job', writer: { index: 1, count: 3 } });
    const buffers = { ...partsOf(1, 10), 'w1/part-00': Uint8Array.of(9), 'w1/other': Uint8Array.of(0, 5, 1) };
    const saved = await manager.save({ version: 2, buffers, noWait: true });
    expect(saved).toMatchObject({ referencedBytes: 27, sizeBytes: 31 });
    const records = calls.filter(({ operation, key }) => operation === 'get' && key.startsWith('version_1/'));
    expect(records.filter(({ key }) => key.includes('/files/1.'))).toHaveLength(4);
    expect(records.filter(({ key }) => key.includes('/receipts/1.'))).toHaveLength(1);
    expect(records.filter(({ key }) => /\/(files|receipts)\/[02]\./.test(key))).toEqual([]);
  });

  test('files of a damaged checkpoint are sent again, although an older one has them too', async () => {
    const bucket = newBucket();
    const save = async (version: number) => {
      const { manager } = openMany(bucket, { attempt: 'job' });
      const saved = await manager.save({ version, buffers: partsOf(0, 10) });
      await manager.close();
      return saved.referencedBytes;
    };
    expect([await save(1), await save(2), await save(3)]).toEqual([0, 0, 30]);
    flip(bucket, only(bucket, 'version_2/', '/w0/part-05'));
    await using(bucket, (manager) => manager.admin.verify({ version: 3, quarantine: true }));
    expect(await save(4)).toBe(0);
    expect(await save(5)).toBe(30);
    await using(bucket, (manager) =>
      manager.admin.verify({ version: 5 }).then(({ problems }) => expect(problems).toEqual([])),
    );
  });

  test('make a save suspect where none of the own ones has changed', async () => {
    const bucket = await run();
    const { manager } = openMany(bucket, { attempt: 'job', writer: { index: 2, count: 3 } });
    const { suspicions } = await manager.save({ version: 2, buffers: partsOf(2, 10), noWait: true });
    expect(suspicions).toEqual(['none of the 10 files has changed since version 1']);
  });
});

describe('a copy', () => {
  test('has lists of its own, the same files, writers, metadata and metrics; the next mirror finds nothing to do', async () => {
    const bucket = newBucket();
    for (const index of [0, 1, 2]) {
      const { manager } = openMany(bucket, { attempt: 'job', writer: { index, count: 3 } });
      const meta = { metrics: { [`m${index}`]: index }, metadata: { [`n${index}`]: `${index}` } };
      await manager.save({ version: 1, buffers: partsOf(index, 10), noWait: true, ...meta });
    }
    const copy = newBucket();
    const mirror = () =>
      using(bucket, (source) => using(copy, (target) => target.admin.mirrorFrom(source, {})));
    expect(await mirror()).toMatchObject({ copied: [{ fileCount: 30, sizeBytes: 90 }], present: [] });
    expect(keysOf(copy, '/files/')).not.toEqual([]);
    const shown = (of: MemoryBucket) =>
      using(of, async (manager) => {
        const details = await (await manager.latest())?.details();
        const files = details?.files.map(({ key: _, ...file }) => file);
        return { metrics: details?.metrics, metadata: details?.metadata, writers: details?.writers, files };
      });
    expect(await shown(copy)).toEqual(await shown(bucket));
    expect(await mirror()).toMatchObject({ copied: [], present: [1n] });
    const { problems } = await using(copy, (manager) => manager.admin.verify({}));
    expect(problems).toEqual([]);
  });

  test('other content under the same version is a conflict that names the writer', async () => {
    const [bucket, other] = [await run(), newBucket()];
    await saveMany(other, { writers: 3, files: 9 });
    const mirror = using(bucket, (source) => using(other, (target) => target.admin.mirrorFrom(source, {})));
    expect(await failure(mirror)).toContain('writer 0 has other files');
  });

  test.each(RECORDS)('a damaged %s is refused as a fault of the source, or skipped', async (_, parts) => {
    const bucket = await run([1, 2]);
    flip(bucket, only(bucket, ...parts));
    const mirror = (onCorrupt?: 'skip') =>
      using(bucket, (source) =>
        using(newBucket(), (target) => target.admin.mirrorFrom(source, { onCorrupt })),
      );
    expect(await failure(mirror())).toMatch(/^Corrupt: version 2 of .* is damaged/);
    expect(await mirror('skip')).toMatchObject({ copied: [{ version: 1n }], skipped: [{ version: 2n }] });
  });
});

test('two versions are compared file by file', async () => {
  const bucket = await run([1, 2]);
  const { files } = await using(bucket, (manager) => manager.admin.diff(1, 2));
  expect(files).toHaveLength(30);
  expect(new Set(files.map(({ change }) => change))).toEqual(new Set(['changed']));
});

describe('a catalog that is gone', () => {
  /** A run whose catalog keys may be written again. */
  async function run(versions: number[]): Promise<MemoryBucket> {
    const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key.startsWith('catalog/') });
    await saveMany(bucket, { versions });
    return bucket;
  }

  test('is made of manifests and the records that they refer to', async () => {
    const bucket = await run([1, 2]);
    const before = await using(bucket, (manager) => manager.list());
    for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
    await using(bucket, (manager) => manager.admin.rebuildCatalog({}));
    const after = await using(bucket, (manager) => manager.list());
    const figures = (list: typeof before) =>
      list.map(({ version, fileCount, sizeBytes, storedBytes }) => [
        version,
        fileCount,
        sizeBytes,
        storedBytes,
      ]);
    expect(figures(after)).toEqual(figures(before));
    expect((await using(bucket, (manager) => manager.admin.verify({}))).problems).toEqual([]);
  });

  test('has no version of which a payload is missing', async () => {
    const bucket = await run([1, 2]);
    for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
    bucket.remove(only(bucket, 'version_2/', '/w1/part-04'));
    const { checkpoints, skipped } = await using(bucket, (manager) => manager.admin.rebuildCatalog({}));
    expect(checkpoints.map(({ version }) => version)).toEqual([1n]);
    expect(skipped[0]?.reason).toContain('w1/part-04 is missing');
  });
});
