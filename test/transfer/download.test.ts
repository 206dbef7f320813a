import { CheckpointError, type ErrorCode } from '@holdfast/core';
import type { StoredFile } from '@holdfast/core/internal/transfer/index';
import { FAULTS, type FaultName, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { ALONE } from '../with-workers/alone.ts';
import {
  bytesItem,
  bytesOf,
  downloadItem,
  failureOf,
  isEqual,
  isWhole,
  MIB,
  NotedSink,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
} from './memory-transfers.ts';

const LARGE = bytesOf(5 * PART + 123);

/** A store that holds `data` under `k`, and transfers that read it. */
function setUpStored(data: Uint8Array, partSizeBytes = PART, options: SetUpOptions = {}) {
  const rig = setUp(options);
  rig.bucket.insert('k', data.slice());
  const file = recordOf('model.bin', 'k', data, partSizeBytes);
  const sink = new NotedSink(data.byteLength);
  return { ...rig, file, sink, download: () => rig.transfers.download([downloadItem(file, sink)]) };
}

describe('what was stored comes back', () => {
  test.each([0, 1, PART - 1, PART, PART + 1, 5 * PART + 123])('a file of %i bytes', async (size) => {
    const data = bytesOf(size);
    const { sink, transfers, download } = setUpStored(data);
    await download();
    expect(isEqual(sink.bytes, data)).toBe(true);
    expect([sink.openCount, sink.closeCount, sink.writtenBytes]).toEqual([1, 1, size]);
    expect(isWhole(transfers)).toBe(true);
  });

  test.each([1, 100, 4096, PART - 1, 3 * PART, 100 * PART])('in parts of %i bytes', async (partSizeBytes) => {
    const data = bytesOf(partSizeBytes === 1 ? 5000 : 5 * PART + 123);
    const { sink, store, download } = setUpStored(data, partSizeBytes);
    await download();
    expect(isEqual(sink.bytes, data)).toBe(true);
    // Small parts are read together.
    expect(store.calls.length).toBeLessThanOrEqual(
      Math.ceil(data.byteLength / Math.max(partSizeBytes, PART / 2)),
    );
  });

  test('what was uploaded, all files of a set', async () => {
    const { transfers } = setUp();
    const all = [0, 10, PART, 3 * PART + 1].map((size, index) => bytesOf(size, index));
    const files = await transfers.upload(all.map((data, index) => bytesItem(`f${index}`, data)));
    const sinks = all.map((data) => new NotedSink(data.byteLength));
    await transfers.download(files.map((file, index) => downloadItem(file, sinks[index] as NotedSink)));
    for (const [index, sink] of sinks.entries()) {
      expect(isEqual(sink.bytes, all[index] as Uint8Array)).toBe(true);
      expect([sink.openCount, sink.closeCount]).toEqual([1, 1]);
    }
  });

  test('a store that reads aligned is asked for whole blocks at the end of the object', async () => {
    const { sink, store, download } = setUpStored(LARGE, PART, { capabilities: { alignmentBytes: 4096 } });
    const lengths: number[] = [];
    const read = store.readInto.bind(store);
    store.readInto = (key, offset, buffer, options) => {
      lengths.push(buffer.byteLength);
      return read(key, offset, buffer, options);
    };
    await download();
    expect(lengths).toEqual([PART, PART, PART, PART, PART, 4096]);
    expect(isEqual(sink.bytes, LARGE)).toBe(true);
  });

  test('progress ends at the total; files take turns', async () => {
    const rig = setUp({ settings: { concurrency: 1 } });
    const files = ['a', 'b'].map((name) => {
      rig.bucket.insert(name, LARGE);
      return recordOf(name, name, LARGE, PART);
    });
    const seen: [string, number, number][] = [];
    const sinks = files.map(() => new NotedSink(LARGE.byteLength));
    await rig.transfers.download(
      files.map((file, index) => downloadItem(file, sinks[index] as NotedSink)),
      { onBytes: (...call) => seen.push(call) },
    );
    expect(seen.map(([name]) => name).slice(0, 6)).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
    const ofA = seen.filter(([name]) => name === 'a').map(([, done, total]) => [done, total]);
    expect(ofA).toEqual(
      [1, 2, 3, 4, 5].map((n) => [n * PART, LARGE.byteLength]).concat([[LARGE.byteLength, LARGE.byteLength]]),
    );
  });
});

describe('damage', () => {
  const flip = (at: number) => (bytes: Uint8Array) => bytes.with(at, (bytes[at] as number) ^ 0x10);

  test('a flipped bit is Corrupt, with file, range, expected and found; the range never reaches the sink', async () => {
    const { bucket, file, sink, transfers, download } = setUpStored(LARGE);
    bucket.damage('k', flip(2 * PART + 5));
    const error = await failureOf(download());
    const expected = new DataView(file.partCrc32c.buffer).getUint32(8).toString(16).padStart(8, '0');
    expect(error.code).toBe('Corrupt');
    expect(error.message).toMatch(
      /^model\.bin bytes 131,072–196,607 do not match their checksum \(expected [0-9a-f]{8}, found [0-9a-f]{8}, in k\)$/,
    );
    expect(error.context).toMatchObject({
      name: 'model.bin',
      key: 'k',
      range: { start: 2 * PART, end: 3 * PART },
      expected,
    });
    expect(error.context.found).not.toBe(expected);
    expect(new Set(sink.bytes.subarray(2 * PART, 3 * PART))).toEqual(new Set([0xaa]));
    expect([sink.closeCount, isWhole(transfers)]).toEqual([1, true]);
  });

  test.each([1, 100, PART, PART / 2, 7 * PART])(
    'every flipped byte is found, in parts of %i',
    async (partSizeBytes) => {
      const data = bytesOf(2 * PART + 3);
      for (const at of [0, 1, partSizeBytes, PART - 1, PART, 2 * PART, 2 * PART + 2]) {
        if (at >= data.byteLength) continue;
        const { bucket, download } = setUpStored(data, partSizeBytes);
        bucket.damage('k', flip(at));
        const error = await failureOf(download());
        const { start, end } = error.context.range as { start: number; end: number };
        expect(at).toBeGreaterThanOrEqual(start);
        expect(at).toBeLessThan(end);
        expect(end - start).toBeLessThanOrEqual(Math.max(partSizeBytes, 1));
      }
    },
  );

  test('a bit that flipped on the way is read once more', async () => {
    const { sink, store, transfers, file } = setUpStored(LARGE);
    const details: string[] = [];
    let flips = 0;
    const read = store.readInto.bind(store);
    store.readInto = async (key, offset, buffer, options) => {
      const count = await read(key, offset, buffer, options);
      if (offset === PART && flips++ === 0) buffer[7] = (buffer[7] as number) ^ 1;
      return count;
    };
    await transfers.download([downloadItem(file, sink)], { onRetry: (detail) => details.push(detail) });
    expect(isEqual(sink.bytes, LARGE)).toBe(true);
    expect(details).toEqual([
      expect.stringMatching(/bytes 65,536–131,071 do not match.*; reading it once more/),
    ]);
  });

  test.each([
    [
      'cut off',
      (bytes: Uint8Array) => bytes.subarray(0, 3 * PART + 1),
      `ends after ${3 * PART + 1} of ${LARGE.byteLength} bytes`,
    ],
    ['emptied', () => new Uint8Array(0), `ends after 0 of ${LARGE.byteLength} bytes`],
  ])('an object that was %s is Corrupt and says where it ends', async (_, change, message) => {
    const { bucket, sink, transfers, download } = setUpStored(LARGE, PART, { settings: { concurrency: 1 } });
    bucket.damage('k', change);
    const error = await failureOf(download());
    expect([error.code, error.message]).toEqual(['Corrupt', `"model.bin" ${message} (k)`]);
    expect([sink.closeCount, isWhole(transfers)]).toEqual([1, true]);
  });

  test('an object that has grown is Corrupt where the store reads aligned', async () => {
    const { bucket, download } = setUpStored(LARGE, PART, { capabilities: { alignmentBytes: 4096 } });
    bucket.damage('k', (bytes) => Buffer.concat([bytes, Uint8Array.of(1)]));
    expect((await failureOf(download())).message).toContain(`is longer than its ${LARGE.byteLength} bytes`);
  });

  test('an object that is gone is Corrupt and names it; nothing is read twice', async () => {
    const { bucket, store, sink, download } = setUpStored(LARGE, PART, { settings: { concurrency: 1 } });
    bucket.remove('k');
    const error = await failureOf(download());
    expect([error.code, error.message]).toEqual(['Corrupt', '"model.bin" is missing: there is no object k']);
    expect([store.calls.length, sink.closeCount]).toEqual([1, 1]);
  });

  test('a record that does not hold together is Corrupt before anything is opened or read', async () => {
    const { file, sink, store, transfers } = setUpStored(LARGE);
    const records: StoredFile[] = [
      { ...file, crc32c: file.crc32c ^ 1 },
      { ...file, sizeBytes: Number.MAX_SAFE_INTEGER },
      { ...file, partSizeBytes: 1 },
      { ...file, partCrc32c: new Uint8Array(0) },
    ];
    for (const record of records) {
      const error = await failureOf(transfers.download([downloadItem(record, sink)]));
      expect([error.code, error.message]).toEqual([
        'Corrupt',
        expect.stringContaining('the record of "model.bin"'),
      ]);
    }
    expect([store.calls, sink.openCount]).toEqual([[], 0]);
  });
});

describe('parts larger than the memory for them', () => {
  const DATA = bytesOf(21 * MIB + 5);
  const PART_BYTES = 10 * MIB; // the budget of 16 MiB holds parts of up to 8
  const options = { settings: { partSizeBytesMin: MIB, concurrency: 2 } };

  test('are read twice in pieces, and nothing is written that was not compared', async () => {
    const { sink, store, transfers, download } = setUpStored(DATA, PART_BYTES, options);
    await download();
    expect(isEqual(sink.bytes, DATA)).toBe(true);
    expect(transfers.memory.peakBytes).toBeLessThanOrEqual(3 * MIB);
    expect(store.calls).toHaveLength(2 * 10 * 2 + 1); // the last part is small
    expect(isWhole(transfers)).toBe(true);
  });

  test('damage is found in the first reading, before anything of the part is written', async () => {
    const { bucket, sink, download } = setUpStored(DATA, PART_BYTES, options);
    bucket.damage('k', (bytes) => bytes.with(19 * MIB, (bytes[19 * MIB] as number) ^ 1));
    const error = await failureOf(download());
    expect(error.context.range).toEqual({ start: PART_BYTES, end: 2 * PART_BYTES });
    expect(
      isEqual(sink.bytes.subarray(PART_BYTES, 2 * PART_BYTES), new Uint8Array(PART_BYTES).fill(0xaa)),
    ).toBe(true);
  });

  test('damage between the two readings is found in the second one', async () => {
    const { bucket, sink, store, download } = setUpStored(DATA, PART_BYTES, options);
    let reads = 0;
    const read = store.readInto.bind(store);
    store.readInto = (key, offset, buffer, readOptions) => {
      if (offset === 3 * MIB && ++reads === 2) {
        bucket.damage('k', (bytes) => bytes.with(3 * MIB, (bytes[3 * MIB] as number) ^ 1));
      }
      return read(key, offset, buffer, readOptions);
    };
    const error = await failureOf(download());
    expect(error.context.range).toEqual({ start: 3 * MIB, end: 4 * MIB });
    expect(sink.bytes[3 * MIB]).toBe(0xaa);
  });

  test('an object that ends early, or is gone, is Corrupt', async () => {
    for (const change of ['cut', 'gone']) {
      const { bucket, sink, transfers, download } = setUpStored(DATA, PART_BYTES, options);
      if (change === 'gone') bucket.remove('k');
      else bucket.damage('k', (bytes) => bytes.subarray(0, 12 * MIB + 1));
      const { message } = await failureOf(download());
      // The read of a later part may fail first.
      const early = new RegExp(`ends (after ${12 * MIB + 1}|at or before ${20 * MIB}) of`);
      expect(message).toMatch(change === 'gone' ? /is missing/ : early);
      expect([sink.closeCount, isWhole(transfers)]).toEqual([1, true]);
    }
  });

  test('a record that claims an enormous part allocates nothing for it', async () => {
    const { bucket, file, sink, transfers } = setUpStored(bytesOf(MIB), MIB, options);
    const sizeBytes = 2 ** 50;
    const record = { ...file, sizeBytes, partSizeBytes: sizeBytes };
    const error = await failureOf(transfers.download([downloadItem(record, sink)]));
    expect(error.message).toBe(`"model.bin" ends at or before ${MIB} of ${sizeBytes} bytes (k)`);
    bucket.remove('k');
    expect(transfers.memory.peakBytes).toBe(MIB);
  });
});

describe('faults', () => {
  const names = (Object.keys(FAULTS) as FaultName[]).filter((name) => FAULTS[name].reply !== 'stop');
  test.each(names)('%s at any call: the bytes arrive all the same', async (name) => {
    for (let failing = 0; failing < 6; failing += 1) {
      const plan: SetUpOptions['plan'] = ({ number }) => (number === failing ? FAULTS[name] : undefined);
      const { sink, transfers, download } = setUpStored(LARGE, PART, { plan });
      await download();
      expect(isEqual(sink.bytes, LARGE)).toBe(true);
      expect([sink.closeCount, isWhole(transfers)]).toEqual([1, true]);
    }
  });

  test.each<ErrorCode>(['Denied', 'Unexpected'])('%s at any call: that error, all settled', async (code) => {
    for (let failing = 0; failing < 6; failing += 1) {
      const plan: SetUpOptions['plan'] = ({ number }) => (number === failing ? refuse(code) : undefined);
      const { sink, transfers, download } = setUpStored(LARGE, PART, { plan });
      expect((await failureOf(download())).code).toBe(code);
      expect([sink.closeCount, isWhole(transfers)]).toEqual([1, true]);
    }
  });

  test('the signal at any call: Aborted, all settled; and no range is written afterwards', async () => {
    for (let stopping = 0; stopping < 6; stopping += 1) {
      const stop = new AbortController();
      const plan: SetUpOptions['plan'] = ({ number }) => {
        if (number === stopping) stop.abort();
        return undefined;
      };
      const { file, sink, transfers } = setUpStored(LARGE, PART, { plan });
      const error = await failureOf(transfers.download([downloadItem(file, sink)], { signal: stop.signal }));
      expect([error.code, sink.closeCount, isWhole(transfers)]).toEqual(['Aborted', 1, true]);
      const written = sink.writtenBytes;
      await new Promise((resolve) => setImmediate(resolve));
      expect(sink.writtenBytes).toBe(written);
    }
  });

  test('any step of a sink that fails: its error, all opened sinks closed once, pool whole', async () => {
    for (let failing = 0; ; failing += 1) {
      const rig = setUp({ settings: { concurrency: 2 } });
      let step = 0;
      let failed = '';
      const before = (name: string) => {
        if (step++ !== failing) return;
        failed = name;
        throw new CheckpointError('StorageFull', `no ${name}`);
      };
      const sinks = [3 * PART, 10, 0].map((size) => new NotedSink(size, before));
      const items = sinks.map((sink, index) => {
        const data = bytesOf(sink.bytes.byteLength, index);
        rig.bucket.insert(`k${index}`, data);
        return downloadItem(recordOf(`f${index}`, `k${index}`, data, PART), sink);
      });
      const outcome = await rig.transfers.download(items).then(
        () => 'done',
        (error: Error) => error.message,
      );
      expect(outcome).toBe(failed === '' ? 'done' : `no ${failed}`);
      expect(isWhole(rig.transfers)).toBe(true);
      for (const sink of sinks) expect(sink.closeCount).toBe(sink.openCount);
      if (failed === '') return;
    }
  });

  test('a sink that hangs: the signal ends the call, and its buffer stays out of use until it ends', async () => {
    const settings = { ...ALONE, stallTimeoutMs: 1000 };
    const { file, sink, transfers } = setUpStored(bytesOf(100), PART, { settings });
    const stop = new AbortController();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    sink.writeAt = () => ended;
    const downloading = transfers.download([downloadItem(file, sink)], { signal: stop.signal });
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    expect((await failureOf(downloading)).code).toBe('Aborted');
    expect(isWhole(transfers)).toBe(false);
    end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(isWhole(transfers)).toBe(true);
  });
});
