import { CheckpointError } from '@holdfast/core';
import { blake3 } from '@holdfast/core/internal/format/index';
import { type KnownFile, KnownFiles } from '@holdfast/core/internal/plan/known-files';
import type { UploadItem } from '@holdfast/core/internal/transfer/index';
import { OrderedHash } from '@holdfast/core/internal/transfer/ordered-hash';
import { refuse } from '@holdfast/testkit';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ALONE } from '../with-workers/alone.ts';
import { countHashedBytes } from './hashed-bytes.ts';
import {
  bytesItem,
  bytesOf,
  chunksOf,
  failureOf,
  fileItem,
  isWhole,
  NotedSource,
  PART,
  recordOf,
  setUp,
  streamItem,
} from './memory-transfers.ts';

const BASE = { lineage: 1, epoch: 1, version: 3n };

function known(data: Uint8Array, changes: Partial<KnownFile> = {}, partSizeBytes = PART): KnownFile {
  return { ...unhashed(data, partSizeBytes), blake3: blake3(data), ...changes };
}

/** A known file that was never hashed: it may not be referred to. */
function unhashed(data: Uint8Array, partSizeBytes = PART): KnownFile {
  return { ...recordOf('known', 'data/known', data, partSizeBytes), blake3: new Uint8Array(0), base: BASE };
}

/** `data` with one byte changed. */
function changedAt(data: Uint8Array, at: number): Uint8Array {
  return data.with(at, (data[at] as number) ^ 1);
}

function among(item: UploadItem, ...files: KnownFile[]): UploadItem {
  return { ...item, known: new KnownFiles(files) };
}

/** Different bytes with the same size and CRC32C: a multiple of the polynomial is added. */
function sameCrc(data: Uint8Array, at: number): Uint8Array {
  const other = data.slice();
  const polynomial = 1n | (0x82f63b78n << 1n);
  for (let byte = 0; byte < 5; byte += 1) {
    other[at + byte] = (other[at + byte] as number) ^ Number((polynomial >> BigInt(8 * byte)) & 0xffn);
  }
  return other;
}

const SIZES = [0, 1, PART - 1, PART, PART + 1, 5 * PART + 17];

describe('a file that is known is not sent', () => {
  test.each(SIZES)('%i bytes, from a file and from memory', async (size) => {
    const data = bytesOf(size);
    const { store, transfers } = setUp();
    const items = [fileItem('file', new NotedSource(data, { mode: 0o600 })), bytesItem('bytes', data)];
    const files = await transfers.upload(items.map((item) => among(item, known(data))));
    for (const file of files) {
      expect(file).toMatchObject({ ...recordOf(file.name, 'data/known', data, PART), blake3: blake3(data) });
      expect(file.known?.base).toBe(BASE);
    }
    expect(files[0]?.mode).toBe(0o600);
    expect([store.calls, isWhole(transfers)]).toEqual([[], true]);
  });

  test.each([1, PART, 3 * PART])('one that was recorded in parts of another size, %i bytes', async (size) => {
    const data = bytesOf(size);
    const { store, transfers } = setUp();
    await transfers.upload([among(bytesItem('a', data), known(data, {}, 4096))]);
    expect(store.calls).toEqual([]);
  });

  test('the first of several equal files is taken', async () => {
    const data = bytesOf(2 * PART);
    const { transfers } = setUp();
    const files = [known(data, { key: 'newest' }), known(data, { key: 'older' })];
    const [file] = await transfers.upload([among(bytesItem('a', data), ...files)]);
    expect(file?.key).toBe('newest');
  });

  test('it counts as done, once', async () => {
    const { transfers } = setUp();
    const [small, large] = [bytesOf(5), bytesOf(3 * PART)];
    const told: unknown[] = [];
    const items = [
      among(bytesItem('small', small), known(small)),
      among(bytesItem('large', large), known(large)),
    ];
    await transfers.upload(items, { onBytes: (...event) => told.push(event) });
    expect(told).toEqual([
      ['small', 5, 5],
      ['large', 3 * PART, 3 * PART],
    ]);
  });
});

describe('what is not known is sent, and not hashed', () => {
  test.each(SIZES)('a file, bytes and a stream of %i bytes', async (size) => {
    using hashed = countHashedBytes();
    const data = bytesOf(size);
    const { bucket, transfers } = setUp();
    const items = [
      fileItem('file', new NotedSource(data)),
      bytesItem('bytes', data),
      streamItem('stream', chunksOf(data, 1000)),
    ];
    const others = [bytesOf(size + 1), bytesOf(size, 2)].filter((other) => other.byteLength > 0);
    const files = await transfers.upload(
      items.map((item) => among(item, ...others.map((other) => unhashed(other)))),
    );
    for (const file of files) {
      expect(file).toEqual({ ...recordOf(file.name, `data/${file.name}.0`, data, PART) });
      expect(bucket.find(file.key)).toBeDefined();
    }
    expect([isWhole(transfers), hashed.take()]).toEqual([true, 0]);
  });

  test('a stream, whatever is known', async () => {
    using hashed = countHashedBytes();
    const data = bytesOf(3 * PART);
    const { bucket, transfers } = setUp();
    const file = known(data);
    hashed.take();
    const [sent] = await transfers.upload([among(streamItem('s', chunksOf(data, 1000)), file)]);
    expect([sent?.key, sent?.known, sent?.blake3, hashed.take()]).toEqual([
      'data/s.0',
      undefined,
      undefined,
      0,
    ]);
    expect(bucket.keys()).toEqual(['data/s.0']);
  });

  test('without known files', async () => {
    const { transfers } = setUp();
    const [file] = await transfers.upload([bytesItem('a', bytesOf(10))]);
    expect(file?.blake3).toBeUndefined();
  });
});

describe('what has the checksums of a known file is hashed, and sent unless BLAKE3 is equal too', () => {
  test.each(SIZES)('a file and bytes of %i bytes, where the known file was never hashed', async (size) => {
    const data = bytesOf(size);
    const { bucket, transfers } = setUp();
    const items = [fileItem('file', new NotedSource(data)), bytesItem('bytes', data)];
    const files = await transfers.upload(items.map((item) => among(item, unhashed(data))));
    for (const { name, key, known, blake3: hash } of files)
      expect([key, known, hash]).toEqual([`data/${name}.0`, undefined, blake3(data)]);
    expect([bucket.keys().length, isWhole(transfers)]).toEqual([2, true]);
  });

  test('parts that are read in any order are hashed in theirs', async () => {
    const data = bytesOf(40 * PART);
    const source = new NotedSource(data);
    const slow = async (offsetBytes: number, buffer: Uint8Array) => {
      for (let turn = (offsetBytes / PART) % 4; turn < 4; turn += 1) await new Promise(setImmediate);
      return NotedSource.prototype.readInto.call(source, offsetBytes, buffer);
    };
    source.readInto = slow;
    const { transfers } = setUp();
    const [file] = await transfers.upload([among(fileItem('a', source), unhashed(data))]);
    expect(source.reads).not.toEqual([...source.reads].sort((a, b) => a - b));
    expect(file?.blake3).toEqual(blake3(data));
  });

  test.each([
    ['in one piece', 1000, 10],
    ['in parts', 3 * PART, PART + 10],
  ])('another file of the same size and CRC32C, %s', async (_, size, at) => {
    const data = bytesOf(size);
    const other = sameCrc(data, at);
    const { bucket, transfers } = setUp();
    expect(recordOf('', '', other, PART)).toEqual(recordOf('', '', data, PART));
    const [file] = await transfers.upload([among(bytesItem('a', other), known(data))]);
    expect([file?.key, file?.known, file?.blake3]).toEqual(['data/a.0', undefined, blake3(other)]);
    expect(bucket.keys()).toEqual(['data/a.0']);
  });

  test('a file that is sent once more is hashed from its beginning', async () => {
    const data = bytesOf(3 * PART);
    let completes = 0;
    const { transfers } = setUp({
      plan: ({ operation }) =>
        operation === 'complete' && completes++ === 0 ? refuse('Corrupt') : undefined,
    });
    const [file] = await transfers.upload([among(bytesItem('a', data), unhashed(data))]);
    expect([completes, file?.blake3]).toEqual([2, blake3(data)]);
  });
});

describe('what comparing costs', () => {
  /** The result for a file of 8 parts, and how many of its parts were hashed. */
  async function hashedParts(data: Uint8Array, ...files: KnownFile[]) {
    using hashed = countHashedBytes();
    const { transfers } = setUp({ settings: ALONE });
    const [file] = await transfers.upload([among(fileItem('a', new NotedSource(data)), ...files)]);
    return { parts: hashed.take() / PART, hash: file?.blake3, isSent: file?.known === undefined };
  }
  const DATA = bytesOf(8 * PART);
  const HASH = blake3(DATA);

  test.each([
    ['never hashed', unhashed],
    ['hashed', known],
  ])('no byte is hashed of a file whose first part differs from one that was %s', async (_, record) => {
    const other = record(changedAt(DATA, 5));
    expect(await hashedParts(DATA, other)).toEqual({ parts: 0, hash: undefined, isSent: true });
  });

  test('hashing ends at the first difference, while the file is sent', async () => {
    const other = unhashed(changedAt(DATA, 3 * PART));
    const { parts, ...rest } = await hashedParts(DATA, other);
    expect(rest).toEqual({ hash: undefined, isSent: true });
    expect(parts).toBeLessThanOrEqual(3);
  });

  test('and while it is compared: what is sent then is not hashed again', async () => {
    const { parts, ...rest } = await hashedParts(DATA, known(changedAt(DATA, 3 * PART)));
    expect(rest).toEqual({ hash: undefined, isSent: true });
    expect(parts).toBeLessThanOrEqual(3);
  });

  test('one of several known files is enough', async () => {
    const files = [unhashed(changedAt(DATA, 5)), unhashed(DATA), unhashed(changedAt(DATA, 6 * PART))];
    expect(await hashedParts(DATA, ...files)).toEqual({ parts: 8, hash: HASH, isSent: true });
  });

  test('a file in parts of another size is no reason to hash, unless it may be referred to', async () => {
    const unhashable = { parts: 0, hash: undefined, isSent: true };
    expect(await hashedParts(DATA, unhashed(DATA, 4096))).toEqual(unhashable);
    const besides = [known(changedAt(DATA, 5)), unhashed(DATA, 4096)];
    expect(await hashedParts(DATA, ...besides)).toEqual(unhashable);
    const found = { parts: 8, hash: HASH, isSent: false };
    expect(await hashedParts(DATA, known(DATA, {}, 4096))).toEqual(found);
    // It is compared as a whole, and differs: what is sent then is not hashed again.
    const differs = { parts: 8, hash: undefined, isSent: true };
    expect(await hashedParts(changedAt(DATA, 5), known(DATA, {}, 4096))).toEqual(differs);
  });

  test('a file that has not changed is hashed once', async () => {
    const found = { parts: 8, hash: HASH, isSent: false };
    expect(await hashedParts(DATA, known(DATA))).toEqual(found);
    expect(await hashedParts(DATA, known(DATA), unhashed(DATA))).toEqual(found);
  });

  test('where no known file may be referred to, it is not read before it is sent', async () => {
    const source = new NotedSource(DATA);
    const { transfers } = setUp();
    await transfers.upload([among(fileItem('a', source), unhashed(DATA))]);
    expect(source.reads).toHaveLength(8);
  });

  test('a file that has changed from its beginning: the reading of one part', async () => {
    const data = bytesOf(8 * PART);
    const source = new NotedSource(data);
    const { transfers } = setUp();
    await transfers.upload([
      among(fileItem('a', source), known(bytesOf(8 * PART, 2)), known(bytesOf(8 * PART, 3))),
    ]);
    expect(source.reads).toHaveLength(9);
  });

  test('a file of another size: none', async () => {
    const source = new NotedSource(bytesOf(8 * PART));
    const { transfers } = setUp();
    await transfers.upload([among(fileItem('a', source), known(bytesOf(8 * PART + 1)))]);
    expect(source.reads).toHaveLength(8);
  });

  test('a file that has not changed is read once', async () => {
    const data = bytesOf(8 * PART);
    const source = new NotedSource(data);
    const { transfers } = setUp();
    await transfers.upload([among(fileItem('a', source), known(data))]);
    expect(source.reads).toHaveLength(8);
  });

  test('I11: many large files that are compared at once keep within the budget', async () => {
    const files = Array.from({ length: 8 }, (_, seed) => bytesOf(6 * 1024 * 1024, seed + 1));
    const { store, transfers, settings } = setUp({ settings: { partSizeBytesMin: 4 * 1024 * 1024 } });
    const part = 4 * 1024 * 1024;
    const all = files.map((data) => known(data, {}, part));
    await transfers.upload(files.map((data, index) => among(bytesItem(`f${index}`, data), ...all)));
    expect(store.calls).toEqual([]);
    expect(transfers.memory.peakBytes).toBeLessThanOrEqual(settings.bufferBytes);
    expect(isWhole(transfers)).toBe(true);
  });
});

describe('errors', () => {
  const changed = new CheckpointError('SourceChanged', 'the file was written meanwhile');

  test.each([
    ['in one piece', 100],
    ['in parts', 4 * PART],
  ])('a file that changes while it is hashed is not referred to, %s', async (_, size) => {
    const data = bytesOf(size);
    const source = new NotedSource(data, {
      before: (step) => {
        if (step === 'assertUnchanged') throw changed;
      },
    });
    const { transfers } = setUp();
    expect(await failureOf(transfers.upload([among(fileItem('a', source), known(data))]))).toBe(changed);
    expect([source.closeCount, isWhole(transfers)]).toEqual([1, true]);
  });

  test.each([
    ['the first part', 1],
    ['a later part', 5],
  ])('%s cannot be read while it is compared', async (_, read) => {
    const data = bytesOf(8 * PART);
    let reads = 0;
    const source = new NotedSource(data, {
      before: (step) => {
        if (step === 'readInto' && ++reads === read) throw changed;
      },
    });
    const { transfers } = setUp();
    const ended = vi.spyOn(OrderedHash.prototype, 'end');
    onTestFinished(() => ended.mockRestore());
    expect(await failureOf(transfers.upload([among(fileItem('a', source), known(data))]))).toBe(changed);
    expect([source.closeCount, isWhole(transfers)]).toEqual([1, true]);
    expect(ended).toHaveBeenCalled(); // or a worker keeps the hash of the file for ever
  });

  test.each([1, 2, 5])(
    'read %i fails while the file is sent and hashed: all memory comes back',
    async (read) => {
      let reads = 0;
      const source = new NotedSource(bytesOf(8 * PART), {
        before: (step) => {
          if (step === 'readInto' && ++reads === read) throw changed;
        },
      });
      const { bucket, transfers } = setUp();
      const item = among(fileItem('a', source), unhashed(bytesOf(8 * PART)));
      expect(await failureOf(transfers.upload([item]))).toBe(changed);
      expect([bucket.keys(), bucket.openUploads(), isWhole(transfers)]).toEqual([[], [], true]);
    },
  );

  test('a part that cannot be sent: all memory comes back', async () => {
    const { transfers } = setUp({
      plan: ({ operation, partIndex }) =>
        operation === 'putPart' && partIndex === 1 ? refuse('Denied') : undefined,
    });
    const data = bytesOf(8 * PART);
    const item = among(bytesItem('a', data), unhashed(data));
    expect(await failureOf(transfers.upload([item]))).toMatchObject({ code: 'Denied' });
    expect(isWhole(transfers)).toBe(true);
  });

  test('a caller that stops while parts are compared', async () => {
    const data = bytesOf(8 * PART);
    const stop = new AbortController();
    let reads = 0;
    const source = new NotedSource(data, {
      before: (step) => {
        if (step === 'readInto' && ++reads === 4) stop.abort();
      },
    });
    const { transfers } = setUp();
    const uploading = transfers.upload([among(fileItem('a', source), known(data))], { signal: stop.signal });
    expect(await failureOf(uploading)).toMatchObject({ code: 'Aborted' });
    expect([source.closeCount, isWhole(transfers)]).toEqual([1, true]);
  });
});
