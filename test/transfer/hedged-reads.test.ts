/**
 * Reads that are far slower than others are sent a second time. The tests use a manual clock. The
 * store answers after the time that a test sets.
 */

import { CheckpointError } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import {
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

const PARTS = 12;
const DATA = bytesOf(PARTS * PART);
const SLOW = 8 * PART; // the offset of the read that is slow the first time
const USUAL_MS = 10;
const VERY_SLOW_MS = 15_000;

interface Answer {
  ms: number;
  error?: CheckpointError;
  /** The read does not end when it is stopped, only when its time has passed. */
  isDeaf?: boolean;
}

interface Read {
  readonly offsetBytes: number;
  readonly atMs: number;
  readonly buffer: Uint8Array;
  outcome: 'under way' | 'answered' | 'stopped' | 'failed';
}

/** `answer`: for the n-th read (from 0) at an offset. */
function setUpSlow(
  answer: (offsetBytes: number, n: number) => Answer | number,
  options: SetUpOptions & { data?: Uint8Array; partSizeBytes?: number } = {},
) {
  const { data = DATA, partSizeBytes = PART, ...rest } = options;
  const rig = setUp(rest);
  rig.bucket.insert('k', data.slice());
  const reads: Read[] = [];
  const readInto = rig.store.readInto.bind(rig.store);
  rig.store.readInto = async (key, offsetBytes, buffer, readOptions) => {
    const n = reads.filter((read) => read.offsetBytes === offsetBytes).length;
    const given = answer(offsetBytes, n);
    const { ms, error, isDeaf }: Answer = typeof given === 'number' ? { ms: given } : given;
    const read: Read = { offsetBytes, atMs: rig.clock.monotonicMs(), buffer, outcome: 'under way' };
    reads.push(read);
    try {
      await rig.clock.sleep(ms, isDeaf ? undefined : readOptions?.signal);
    } catch (stopped) {
      read.outcome = 'stopped';
      throw stopped;
    }
    read.outcome = error ? 'failed' : 'answered';
    if (error) throw error;
    return readInto(key, offsetBytes, buffer);
  };
  const file = recordOf('model.bin', 'k', data, partSizeBytes);
  const sink = new NotedSink(data.byteLength);
  const download = (signal?: AbortSignal) => rig.transfers.download([downloadItem(file, sink)], { signal });
  const slowReads = () => reads.filter(({ offsetBytes }) => offsetBytes === SLOW);
  return { ...rig, file, sink, reads, slowReads, download };
}

const slowOnce = (offsetBytes: number, n: number) =>
  offsetBytes === SLOW && n === 0 ? VERY_SLOW_MS : USUAL_MS;

describe('a read that is far slower than others', () => {
  test('is sent a second time after the delay of the setting; the answer of that counts and the first is stopped', async () => {
    const { clock, download, reads, sink, slowReads, transfers } = setUpSlow(slowOnce);
    await download();
    expect(isEqual(sink.bytes, DATA)).toBe(true);
    expect(reads).toHaveLength(PARTS + 1);
    const [first, second] = slowReads();
    expect([first?.outcome, second?.outcome]).toEqual(['stopped', 'answered']);
    expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBe(2000);
    expect(clock.monotonicMs()).toBeLessThan(2100);
    expect(first?.buffer.byteOffset).not.toBe(second?.buffer.byteOffset);
    expect(isWhole(transfers)).toBe(true);
  });

  test('the first answers after all: it counts, and the second is stopped', async () => {
    const { download, sink, slowReads, transfers } = setUpSlow(
      (offset, n) =>
      offset === SLOW ? [2500, 9000][n] as number : USUAL_MS, // biome-ignore format: a table
    );
    await download();
    expect(isEqual(sink.bytes, DATA)).toBe(true);
    expect(slowReads().map(({ outcome }) => outcome)).toEqual(['answered', 'stopped']);
    expect(isWhole(transfers)).toBe(true);
  });

  test('an error of one waits for the other, whichever it is', async () => {
    const error = new CheckpointError('Unavailable', 'reset');
    const denied = new CheckpointError('Denied', 'no');
    for (const given of [error, denied]) {
      for (const answers of [
        [{ ms: 3000, error: given }, { ms: 5000 }],
        [{ ms: 8000 }, { ms: 10, error: given }],
      ]) {
        const rig = setUpSlow((offset, n) => (offset === SLOW ? (answers[n] as Answer) : USUAL_MS));
        await rig.download();
        expect(isEqual(rig.sink.bytes, DATA)).toBe(true);
        expect(rig.slowReads().map(({ outcome }) => outcome)).toEqual(
          answers.map((answer) => ('error' in answer ? 'failed' : 'answered')),
        );
        expect(isWhole(rig.transfers)).toBe(true);
      }
    }
  });

  test('both fail: the read is repeated, or its error thrown, as without a second request', async () => {
    const unavailable = { ms: 3000, error: new CheckpointError('Unavailable', 'reset') };
    const twice = setUpSlow((offset, n) => (offset === SLOW && n < 2 ? unavailable : USUAL_MS));
    await twice.download();
    expect(isEqual(twice.sink.bytes, DATA)).toBe(true);
    expect(twice.slowReads()).toHaveLength(3);
    const denied = { ms: 3000, error: new CheckpointError('Denied', 'no') };
    const never = setUpSlow((offset) => (offset === SLOW ? denied : USUAL_MS));
    expect((await failureOf(never.download())).code).toBe('Denied');
    expect([never.slowReads().length, isWhole(never.transfers)]).toEqual([2, true]);
  });

  test('the caller stops it while both are under way: Aborted, and all is settled', async () => {
    const stop = new AbortController();
    const rig = setUpSlow((offset, n) => {
      if (offset !== SLOW) return USUAL_MS;
      if (n === 1) void rig.clock.sleep(100).then(() => stop.abort());
      return VERY_SLOW_MS;
    });
    expect((await failureOf(rig.download(stop.signal))).code).toBe('Aborted');
    expect(rig.slowReads().map(({ outcome }) => outcome)).toEqual(['stopped', 'stopped']);
    expect(isWhole(rig.transfers)).toBe(true);
  });

  test('in pieces of a part that is larger than the memory: the same', async () => {
    const data = bytesOf(21 * MIB);
    const partSizeBytes = 10 * MIB; // the budget takes parts of up to 8
    const settings = { partSizeBytesMin: MIB };
    const answer = (offset: number, n: number) =>
      offset === 13 * MIB && n % 2 === 0 ? VERY_SLOW_MS : USUAL_MS;
    const { download, reads, sink, transfers } = setUpSlow(answer, { data, partSizeBytes, settings });
    await download();
    expect(isEqual(sink.bytes, data)).toBe(true);
    // Each part is read twice.
    expect(reads.filter(({ offsetBytes }) => offsetBytes === 13 * MIB)).toHaveLength(4);
    expect(isWhole(transfers)).toBe(true);
  });

  test('verify and streams profit too, and a chunk stays the reader’s own', async () => {
    const verified = setUpSlow(slowOnce);
    const report = await verified.transfers.verify([{ file: verified.file, level: 2 }]);
    expect(report).toEqual({ bytesRead: DATA.byteLength, storedChecksumCount: 0, problems: [] });
    expect(verified.slowReads().map(({ outcome }) => outcome)).toEqual(['stopped', 'answered']);

    const streamed = setUpSlow((offset, n) =>
      offset === SLOW && n === 0 ? { ms: VERY_SLOW_MS, isDeaf: true } : USUAL_MS,
    );
    const chunks: Uint8Array[] = [];
    for await (const chunk of streamed.transfers.stream(streamed.file)) chunks.push(chunk);
    expect(streamed.slowReads()).toHaveLength(2);
    await streamed.transfers.upload([{ name: 'a', key: () => 'a', source: { bytes: bytesOf(9 * MIB, 7) } }]);
    expect(isEqual(Buffer.concat(chunks), DATA)).toBe(true);
    expect(isWhole(streamed.transfers)).toBe(true);
  });
});

describe('the request that lost', () => {
  test('keeps its buffer until its call has ended; what it writes then changes nothing', async () => {
    const rig = setUpSlow((offset, n) =>
      offset === SLOW && n === 0 ? { ms: 2600, isDeaf: true } : USUAL_MS,
    );
    let freeBytesAtEnd: number | undefined;
    const { promise: sinkClosed, resolve: closed } = Promise.withResolvers<void>();
    rig.sink.close = async () => {
      freeBytesAtEnd = rig.transfers.memory.freeBytes;
      rig.bucket.damage('k', (bytes) => bytes.fill(0xee)); // the bytes of the late answer
      closed();
    };
    const downloading = rig.download();
    await sinkClosed;
    expect(rig.clock.monotonicMs()).toBeLessThan(2600);
    expect(rig.transfers.memory.totalBytes - (freeBytesAtEnd ?? 0)).toBe(PART);
    await downloading; // a transfer has ended when none of its requests is in progress
    expect(rig.slowReads()[0]?.outcome).toBe('answered');
    expect(isEqual(rig.sink.bytes, DATA)).toBe(true);
    expect(isWhole(rig.transfers)).toBe(true);
  });

  test('and never ends: the restore is complete after the time of grace, its buffer stays out of use', async () => {
    const settings = { stallTimeoutMs: 5000 };
    const answer = (offset: number, n: number) =>
      offset === SLOW && n === 0 ? { ms: 10 ** 9, isDeaf: true } : USUAL_MS;
    const { clock, download, sink, transfers } = setUpSlow(answer, { settings });
    await download();
    expect(isEqual(sink.bytes, DATA)).toBe(true);
    expect(clock.monotonicMs()).toBeLessThan(8000);
    expect(transfers.memory.totalBytes - transfers.memory.freeBytes).toBe(PART);
  });

  test('failed before, or fails later: its buffer is back', async () => {
    for (const ms of [2005, 2500]) {
      const error = new CheckpointError('Unavailable', 'reset');
      const rig = setUpSlow((offset, n) =>
        offset === SLOW && n === 0 ? { ms, error, isDeaf: true } : USUAL_MS,
      );
      await rig.download();
      expect([isEqual(rig.sink.bytes, DATA), isWhole(rig.transfers)]).toEqual([true, true]);
    }
  });
});

describe('a second request is not sent', () => {
  test('with 0 as the setting', async () => {
    const { download, reads } = setUpSlow(slowOnce, { settings: { hedgeDelayMsMin: 0 } });
    await download();
    expect(reads).toHaveLength(PARTS);
  });

  test('before four times the median of others of its size', async () => {
    const answer = (ms: number) => (offset: number) => (offset === SLOW ? ms : 1500);
    const patient = setUpSlow(answer(5999));
    await patient.download();
    expect(patient.reads).toHaveLength(PARTS);
    const slow = setUpSlow(answer(6001));
    await slow.download();
    expect(slow.slowReads().map(({ outcome }) => outcome)).toEqual(['answered', 'stopped']);
  });

  test('as long as fewer than four others have answered', async () => {
    const data = DATA.subarray(0, 4 * PART);
    const { download, reads } = setUpSlow((offset) => (offset === 0 ? VERY_SLOW_MS : USUAL_MS), { data });
    await download();
    expect(reads).toHaveLength(4);
  });

  test('where no memory is free at once', async () => {
    // Two loans of 8 MiB fill the budget of 16.
    const settings = { partSizeBytesMin: 8 * MIB, concurrency: 2 };
    const data = bytesOf(8 * 8 * MIB);
    const answer = (offset: number) => (offset >= 6 * 8 * MIB ? VERY_SLOW_MS : USUAL_MS);
    const { download, reads } = setUpSlow(answer, { settings, data, partSizeBytes: 8 * MIB });
    await download();
    expect(reads).toHaveLength(8);
  });

  test('while two others are under way', async () => {
    const isSlow = (offset: number) => offset >= 8 * PART;
    const { download, reads, sink } = setUpSlow(
      (offset) => (isSlow(offset) ? { ms: VERY_SLOW_MS } : USUAL_MS),
      { settings: { concurrency: 4 } },
    );
    await download();
    const atOnce = reads.filter(({ atMs }) => atMs === 2020);
    expect([atOnce.length, reads.filter(({ offsetBytes }) => isSlow(offsetBytes)).length]).toEqual([2, 6]);
    expect(isEqual(sink.bytes, DATA)).toBe(true);
  });

  test('before those have ended; then it is', async () => {
    const slowAtFirst = (offset: number, n: number) =>
      offset >= 8 * PART && n === 0 ? VERY_SLOW_MS : USUAL_MS;
    const { clock, download, reads } = setUpSlow(slowAtFirst, { settings: { concurrency: 4 } });
    await download();
    expect(reads.map(({ atMs }) => atMs).filter((atMs) => atMs > 1000)).toEqual([2020, 2020, 4020, 4020]);
    expect(clock.monotonicMs()).toBeLessThan(4100);
  });

  test('to a store that throttles', async () => {
    const throttled = { ms: USUAL_MS, error: new CheckpointError('Throttled', 'slow down') };
    const { download, slowReads } = setUpSlow((offset, n) =>
      offset === 0 && n === 0 ? throttled : slowOnce(offset, n),
    );
    await download();
    expect(slowReads()).toHaveLength(1);
  });
});

describe('an object that is changed in mid-restore is an error, not a mix', () => {
  const changes = {
    'replaced by another': {
      change: (rig: ReturnType<typeof setUp>) => rig.bucket.damage('k', () => bytesOf(DATA.byteLength, 99)),
      message: /^model\.bin bytes 393,?216.* do not match their checksum \(expected .*, found .*, in k\)$/,
    },
    'replaced by a shorter one': {
      change: (rig: ReturnType<typeof setUp>) => rig.bucket.damage('k', (bytes) => bytes.subarray(0, 10)),
      message: /^"model\.bin" ends (after|at or before) \d+ of 786432 bytes \(k\)$/,
    },
    deleted: {
      change: (rig: ReturnType<typeof setUp>) => rig.bucket.remove('k'),
      message: /^"model\.bin" is missing: there is no object k$/,
    },
  };
  test.each(Object.entries(changes))('%s', async (_, { change, message }) => {
    const rig = setUpSlow(
      (offset, n) => {
        if (offset === 6 * PART && n === 0) change(rig);
        return USUAL_MS;
      },
      { settings: { concurrency: 1 } },
    );
    const error = await failureOf(rig.download());
    expect([error.code, error.context.name, error.context.key]).toEqual(['Corrupt', 'model.bin', 'k']);
    expect(error.message).toMatch(message);
    expect(isEqual(rig.sink.bytes.subarray(0, 6 * PART), DATA.subarray(0, 6 * PART))).toBe(true);
    expect(isEqual(rig.sink.bytes.subarray(6 * PART), new Uint8Array(6 * PART).fill(0xaa))).toBe(true);
    expect(isWhole(rig.transfers)).toBe(true);
  });
});

describe('a file that is read at any position', () => {
  test('the answer of the second request counts; the first, which goes on all the same, does not touch the caller’s memory', async () => {
    const answer = (offsetBytes: number, n: number): Answer =>
      offsetBytes === SLOW && n === 0 ? { ms: VERY_SLOW_MS, isDeaf: true } : { ms: USUAL_MS };
    const { file, slowReads, transfers } = setUpSlow(answer);
    const source = transfers.source(file);
    const buffer = new Uint8Array(PART);
    for (let part = 0; part <= SLOW / PART; part += 1) await source.readInto(part * PART, buffer);
    expect(isEqual(buffer, DATA.subarray(SLOW, SLOW + PART))).toBe(true);
    expect(slowReads().map(({ outcome }) => outcome)).toEqual(['under way', 'answered']);
    expect(slowReads().every((read) => read.buffer.buffer !== buffer.buffer)).toBe(true);
    await source.assertUnchanged();
    await source.close();
  });
});
