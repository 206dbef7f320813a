import { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, refuse } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import {
  bytesOf,
  failureOf,
  isWhole,
  MIB,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
} from './memory-transfers.ts';

const DATA = bytesOf(20 * PART + 9);

function setUpStored(options: SetUpOptions = {}) {
  const rig = setUp(options);
  const files = ['a', 'b', 'empty'].map((name) => {
    const data = name === 'empty' ? new Uint8Array(0) : DATA;
    rig.bucket.insert(name, data.slice());
    return recordOf(name, name, data, PART);
  });
  const items = (level: 0 | 1 | 2) => files.map((file) => ({ file, level }));
  return { ...rig, files, items };
}

const flip = (...places: number[]) => {
  return (bytes: Uint8Array) => {
    for (const at of places) bytes[at] = (bytes[at] as number) ^ 1;
    return bytes;
  };
};

test('level 2 reads every byte, level 1 the first part, the last and one in between, after what the store says of each file', async () => {
  const { items, store, transfers } = setUpStored();
  expect(await transfers.verify(items(2))).toEqual({
    bytesRead: 2 * DATA.byteLength,
    storedChecksumCount: 0,
    problems: [],
  });
  store.calls.length = 0;
  expect(await transfers.verify(items(1))).toEqual({
    bytesRead: 2 * (2 * PART + 9),
    storedChecksumCount: 3,
    problems: [],
  });
  expect(store.calls.map(({ operation }) => operation).sort()).toEqual([
    ...Array<string>(3).fill('head'),
    ...Array<string>(6).fill('readInto'),
  ]);
  expect(isWhole(transfers)).toBe(true);
});

test('level 0 compares sizes, and checksums where the store tells them, without reading a byte', async () => {
  const { bucket, items, store, transfers } = setUpStored();
  bucket.damage('a', flip(5 * PART));
  bucket.damage('b', (bytes) => bytes.subarray(1));
  const report = await transfers.verify(items(0));
  expect(report).toEqual({
    bytesRead: 0,
    storedChecksumCount: 2,
    problems: [
      {
        name: 'a',
        message: expect.stringMatching(
          /^"a" has the checksum [0-9a-f]{8} in the store \(expected [0-9a-f]{8}\)/,
        ),
      },
      { name: 'b', message: `"b" has ${DATA.byteLength - 1} of ${DATA.byteLength} bytes (b)` },
    ],
  });
  bucket.remove('a');
  expect((await transfers.verify(items(0))).problems[0]?.message).toBe(
    '"a" is missing: there is no object a',
  );
  expect(new Set(store.calls.map(({ operation }) => operation))).toEqual(new Set(['head']));
});

test('level 0 on a store that tells no checksum compares sizes, and says how many checksums it compared: none', async () => {
  const { items, transfers } = setUpStored({ bucket: new MemoryBucket() });
  expect(await transfers.verify(items(0))).toEqual({ bytesRead: 0, storedChecksumCount: 0, problems: [] });
});

test('level 0 on a store that cannot be asked is an error, not a problem of the file', async () => {
  const { items, transfers } = setUpStored({ plan: () => refuse('Denied') });
  expect((await failureOf(transfers.verify(items(0)))).code).toBe('Denied');
});

test('every damaged range is reported, in order, and the other files are read all the same', async () => {
  const { bucket, items, transfers } = setUpStored();
  bucket.damage('a', flip(5 * PART, 17 * PART + 3, 0));
  const { bytesRead, problems } = await transfers.verify(items(2));
  expect(problems.map(({ name }) => name)).toEqual(['a', 'a', 'a']);
  expect(problems.map(({ message }) => /bytes [\d,]+/.exec(message)?.[0])).toEqual([
    'bytes 0',
    'bytes 327,680',
    'bytes 1,114,112',
  ]);
  expect(bytesRead).toBe(2 * DATA.byteLength - 3 * PART);
});

test('level 1 sees damage at the ends, and in between only by chance', async () => {
  // A store that reports no checksum: a checksum would reveal the damage.
  const { bucket, items, transfers } = setUpStored({ bucket: new MemoryBucket() });
  bucket.damage('a', flip(5 * PART));
  bucket.damage('b', flip(20 * PART + 1));
  expect((await transfers.verify(items(1))).problems.map(({ name }) => name)).toEqual(['b']);
});

test('a file damaged all over is not read on after 10 problems', async () => {
  const { bucket, items, store, transfers } = setUpStored({ settings: { concurrency: 1 } });
  bucket.damage('a', (bytes) => bytes.fill(0));
  const { problems } = await transfers.verify(items(2).slice(0, 1));
  expect(problems).toHaveLength(10);
  expect(store.calls.length).toBeLessThan(2 * 13);
});

test('a missing object is one problem; so are a short one’s lost parts, and a bad record', async () => {
  const { bucket, files, items, transfers } = setUpStored();
  bucket.remove('a');
  bucket.damage('b', (bytes) => bytes.subarray(0, 19 * PART));
  const missing = await transfers.verify(items(2));
  expect(missing.problems).toEqual([
    { name: 'a', message: '"a" is missing: there is no object a' },
    { name: 'b', message: `"b" ends at or before ${19 * PART} of ${DATA.byteLength} bytes (b)` },
    { name: 'b', message: expect.stringContaining('"b" ends at or before') },
  ]);
  const [file] = files;
  if (!file) throw new Error('there is a file');
  const bad = await transfers.verify([{ file: { ...file, sizeBytes: 5 }, level: 2 }]);
  expect(bad).toEqual({
    bytesRead: 0,
    storedChecksumCount: 0,
    problems: [{ name: 'a', message: expect.stringContaining('the record of "a"') }],
  });
});

test('an oversized part is compared in pieces', async () => {
  const rig = setUp({ settings: { partSizeBytesMin: MIB } });
  const data = bytesOf(13 * MIB);
  rig.bucket.insert('k', data);
  const item = { file: recordOf('large', 'k', data, 12 * MIB), level: 2 } as const;
  expect(await rig.transfers.verify([item])).toMatchObject({ bytesRead: 13 * MIB, problems: [] });
  rig.bucket.damage('k', flip(11 * MIB));
  const { problems } = await rig.transfers.verify([item]);
  expect(problems.map(({ message }) => message)).toEqual([expect.stringContaining('bytes 0–12,582,911')]);
  expect(isWhole(rig.transfers)).toBe(true);
});

test('a store that cannot be read is an error, not a problem of the file', async () => {
  const denied = setUpStored({ plan: ({ number }) => (number === 3 ? refuse('Denied') : undefined) });
  expect((await failureOf(denied.transfers.verify(denied.items(2)))).code).toBe('Denied');
  const down = setUpStored({ plan: () => FAULTS.loseReply, settings: { retryCountMax: 2 } });
  expect(await failureOf(down.transfers.verify(down.items(2)))).toMatchObject({
    code: 'Unavailable',
    status: 'exhausted',
  });
  const stop = new AbortController();
  const stopped = setUpStored({
    plan: ({ number }) => {
      if (number === 5) stop.abort();
      return undefined;
    },
  });
  expect((await failureOf(stopped.transfers.verify(stopped.items(2), { signal: stop.signal }))).code).toBe(
    'Aborted',
  );
  for (const { transfers } of [denied, down, stopped]) expect(isWhole(transfers)).toBe(true);
});
