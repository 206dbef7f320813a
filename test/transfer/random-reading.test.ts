import { CheckpointError, type RandomSource } from '@holdfast/core';
import { FAULTS, type FaultPlan, scriptedFaults } from '@holdfast/testkit';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  failureOf,
  isEqual,
  isWhole,
  MIB,
  PART,
  recordOf,
  type SetUpOptions,
  setUp,
} from './memory-transfers.ts';

const DATA = bytesOf(9 * PART + 77);

function setUpSource(data = DATA, partSizeBytes = PART, options: SetUpOptions = {}) {
  const rig = setUp(options);
  rig.bucket.insert('k', data.slice());
  const file = recordOf('model.bin', 'k', data, partSizeBytes);
  /** How often each byte was fetched from the store. */
  const fetched = new Uint8Array(data.byteLength);
  const read = rig.store.readInto.bind(rig.store);
  rig.store.readInto = async (key, offset, buffer, readOptions) => {
    const count = await read(key, offset, buffer, readOptions);
    for (let at = offset; at < offset + count; at += 1) fetched[at]! += 1;
    return count;
  };
  const open = (signal?: AbortSignal) => rig.transfers.source(file, { signal });
  return { ...rig, fetched, file, open };
}

async function read(source: RandomSource, offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(lengthBytes);
  await source.readInto(offsetBytes, buffer);
  return buffer;
}

const flipped = (bytes: Uint8Array, at: number) => bytes.with(at, (bytes[at] as number) ^ 4);

interface Story {
  readonly sizeBytes: number;
  readonly partSizeBytes: number;
  /** Offset and length, inside the file. */
  readonly reads: readonly (readonly [offsetBytes: number, lengthBytes: number])[];
}

const anyStory: fc.Arbitrary<Story> = fc
  .tuple(fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 1, max: 1200 }))
  .chain(([sizeBytes, partSizeBytes]) =>
    fc
      .array(fc.tuple(fc.nat(sizeBytes - 1), fc.integer({ min: 0, max: sizeBytes })), { maxLength: 8 })
      .map((ranges) => ({
        sizeBytes,
        partSizeBytes,
        reads: ranges.map(([at, length]) => [at, Math.min(length, sizeBytes - at)] as const),
      })),
  );

/** How often the caller has read each byte, and which parts it has touched. */
function askedFor({ sizeBytes, partSizeBytes, reads }: Story) {
  const counts = new Uint8Array(sizeBytes);
  for (const [at, length] of reads) for (let byte = at; byte < at + length; byte += 1) counts[byte]! += 1;
  const parts = new Set(
    [...counts.entries()].filter(([, n]) => n > 0).map(([at]) => Math.floor(at / partSizeBytes)),
  );
  const isTouched = (byte: number) => parts.has(Math.floor(byte / partSizeBytes));
  const isRepeated = (part: number) =>
    counts.subarray(part * partSizeBytes, (part + 1) * partSizeBytes).some((n) => n > 1);
  return { counts, isTouched, isRepeatedAt: (byte: number) => isRepeated(Math.floor(byte / partSizeBytes)) };
}

async function tell({ reads }: Story, source: RandomSource, data: Uint8Array): Promise<void> {
  const found = await Promise.all(reads.map(([at, length]) => read(source, at, length)));
  for (const [index, [at, length]] of reads.entries())
    expect(isEqual(found[index], data.subarray(at, at + length))).toBe(true);
}

describe('a file read at any position', () => {
  test('each byte of the parts that were touched is fetched once, or once more than it was asked for; no other is', async () => {
    await fc.assert(
      fc.asyncProperty(anyStory, async (story) => {
        const data = bytesOf(story.sizeBytes);
        const { fetched, open, transfers } = setUpSource(data, story.partSizeBytes);
        const source = open();
        await tell(story, source, data);
        await source.assertUnchanged();
        await source.close();
        const { counts, isTouched, isRepeatedAt } = askedFor(story);
        const isRight = (count: number, byte: number) => {
          const asked = counts[byte]!;
          if (!isTouched(byte)) return count === 0;
          if (!isRepeatedAt(byte)) return count === 1;
          return count === Math.max(1, asked) || count === asked + 1;
        };
        expect([...fetched.entries()].filter(([byte, count]) => !isRight(count, byte))).toEqual([]);
        expect(isWhole(transfers)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  test('any answer with any wrong bit is found, for every caller', async () => {
    await fc.assert(
      fc.asyncProperty(anyStory, fc.nat(), fc.nat(), async (story, which, where) => {
        const data = bytesOf(story.sizeBytes);
        const { open, store } = setUpSource(data, story.partSizeBytes);
        const readInto = store.readInto.bind(store);
        const lengths: number[] = [];
        let lieAt = -1;
        store.readInto = async (key, offset, buffer, options) => {
          const count = await readInto(key, offset, buffer, options);
          if (lengths.push(count) - 1 === lieAt) buffer[where % count]! ^= 1 << (where % 8);
          return count;
        };
        const run = async () => {
          const source = open();
          for (const [at, length] of story.reads) await read(source, at, length);
          await source.assertUnchanged().finally(() => source.close());
        };
        await run();
        if (lengths.length === 0) return;
        lieAt = which % lengths.length;
        lengths.length = 0;
        expect((await failureOf(run())).code).toBe('Corrupt');
      }),
      { numRuns: 60 },
    );
  });

  test('a damaged byte in a part that was touched: Corrupt names file, range, expected and found', async () => {
    const { bucket, open } = setUpSource();
    bucket.damage('k', (bytes) => flipped(bytes, 3 * PART + 5));
    const source = open();
    await read(source, 4 * PART - 10, 20);
    const error = await failureOf(source.assertUnchanged());
    expect(error).toMatchObject({
      code: 'Corrupt',
      context: { name: 'model.bin', key: 'k', range: { start: 3 * PART, end: 4 * PART } },
    });
    expect(error.message).toMatch(
      /^model\.bin bytes 196,608–262,143 do not match their checksum \(expected [0-9a-f]{8}, found [0-9a-f]{8}, in k\)$/,
    );
    expect((await failureOf(source.assertUnchanged())).code).toBe('Corrupt'); // it stays damaged
    await source.close();
  });

  test('a damaged byte elsewhere does not matter', async () => {
    const { bucket, open } = setUpSource();
    bucket.damage('k', (bytes) => flipped(bytes, 3 * PART + 5));
    const source = open();
    await read(source, 4 * PART, 20);
    await source.assertUnchanged();
    await source.close();
  });

  test('the second reading of the same bytes lies: Corrupt names what was read, though the object is whole', async () => {
    const { open, store } = setUpSource();
    const source = open();
    await read(source, PART + 10, 100);
    const readInto = store.readInto.bind(store);
    store.readInto = async (key, offset, buffer, options) => {
      const count = await readInto(key, offset, buffer, options);
      buffer[7]! ^= 1;
      return count;
    };
    await read(source, PART + 60, 100);
    store.readInto = readInto;
    const error = await failureOf(source.assertUnchanged());
    expect(error).toMatchObject({
      code: 'Corrupt',
      context: { range: { start: PART + 60, end: PART + 160 } },
    });
    await source.close();
  });

  test('what is read after the proof needs another one', async () => {
    const { bucket, open } = setUpSource();
    const source = open();
    await read(source, 0, 10);
    await source.assertUnchanged();
    await source.assertUnchanged(); // nothing is left to check
    bucket.damage('k', (bytes) => flipped(bytes, 100));
    await read(source, 0, 10);
    expect((await failureOf(source.assertUnchanged())).code).toBe('Corrupt');
    await source.close();
  });

  test('large reads are cut into requests that run at once; gaps of a part into requests of 4 MiB', async () => {
    const data = bytesOf(10 * MIB + 3);
    const { fetched, open, store, transfers } = setUpSource(data, 10 * MIB);
    const source = open();
    expect(isEqual(await read(source, 1, 5 * MIB), data.subarray(1, 1 + 5 * MIB))).toBe(true);
    expect(store.calls).toHaveLength(2);
    await source.assertUnchanged();
    expect(store.calls).toHaveLength(2 + 1 + 2);
    expect(isEqual(fetched, new Uint8Array(data.byteLength).fill(1, 0, 10 * MIB))).toBe(true);
    expect(transfers.memory.peakBytes).toBeLessThanOrEqual(8 * MIB);
    await source.close();
  });

  test('a file without a byte, and reads of none', async () => {
    const { open, store } = setUpSource(new Uint8Array(0), 1);
    const source = open();
    await read(source, 0, 0);
    await source.assertUnchanged();
    expect((await failureOf(read(source, 0, 1))).code).toBe('InvalidArgument');
    await source.close();
    expect(store.calls).toEqual([]);
  });

  test.each([
    [-1, 1],
    [0.5, 1],
    [Number.NaN, 1],
    [DATA.byteLength, 1],
    [DATA.byteLength - 1, 2],
    [2 ** 53, 0],
  ])(
    'a range outside the file, at %d for %d bytes: InvalidArgument, and nothing is asked of the store',
    async (at, length) => {
      const { open, store } = setUpSource();
      const source = open();
      const error = await failureOf(read(source, at, length));
      expect([error.code, error.context.name]).toEqual(['InvalidArgument', 'model.bin']);
      expect(error.message).toContain(`outside "model.bin", which has ${DATA.byteLength}`);
      expect(store.calls).toEqual([]);
      await source.close();
    },
  );

  test('a record that does not hold together is Corrupt, and nothing is begun', async () => {
    const { file, transfers } = setUpSource();
    const opening = async () => transfers.source({ ...file, crc32c: file.crc32c ^ 1 });
    expect((await failureOf(opening())).code).toBe('Corrupt');
    await transfers.close();
  });
});

describe('a store that fails', () => {
  const everyCall = [FAULTS.loseReply, FAULTS.loseRequest, FAULTS.stall];

  test('any call for a while: the bytes arrive, and are proven', async () => {
    for (const fault of everyCall) {
      for (let failing = 0; failing < 4; failing += 1) {
        const plan: FaultPlan = ({ number }) => (number === failing ? fault : undefined);
        const { open, transfers } = setUpSource(DATA, PART, { plan });
        const source = open();
        expect(isEqual(await read(source, 50, PART), DATA.subarray(50, 50 + PART))).toBe(true);
        await source.assertUnchanged();
        await source.close();
        expect(isWhole(transfers)).toBe(true);
      }
    }
  });

  test('a read that fails for good does not end the source: the next one succeeds', async () => {
    const plan = scriptedFaults({
      operation: 'readInto',
      times: 1,
      fault: { effect: 'none', reply: 'error', error: 'Denied' },
    });
    const { open } = setUpSource(DATA, PART, { plan });
    const source = open();
    expect((await failureOf(read(source, 0, 10))).code).toBe('Denied');
    expect(isEqual(await read(source, 0, 10), DATA.subarray(0, 10))).toBe(true);
    await source.assertUnchanged();
    await source.close();
  });

  test('a proof that fails for a while leaves all to be proven', async () => {
    const { bucket, open, store } = setUpSource(DATA, PART, { settings: { retryCountMax: 0 } });
    const source = open();
    await read(source, 0, 10);
    bucket.damage('k', (bytes) => flipped(bytes, 100));
    const readInto = store.readInto.bind(store);
    store.readInto = () => Promise.reject(new CheckpointError('Unavailable', 'no answer'));
    expect((await failureOf(source.assertUnchanged())).code).toBe('Unavailable');
    store.readInto = readInto;
    expect((await failureOf(source.assertUnchanged())).code).toBe('Corrupt');
    await source.close();
  });

  test('the object is gone, or has become shorter: Corrupt', async () => {
    const { bucket, open } = setUpSource();
    const source = open();
    bucket.damage('k', (bytes) => bytes.subarray(0, PART + 1));
    const short = await failureOf(read(source, PART, 100));
    expect([short.code, short.message]).toEqual(['Corrupt', expect.stringContaining('ends after 65537 of')]);
    bucket.remove('k');
    expect((await failureOf(read(source, 0, 1))).message).toContain('there is no object k');
    await source.close();
  });
});

describe('the end of a source', () => {
  test.each(['close of the source', 'signal', 'close of all transfers'])(
    '%s: what is under way is stopped with Aborted, then it is over, once',
    async (how) => {
      const plan: FaultPlan = () => FAULTS.stall;
      const { open, transfers } = setUpSource(DATA, PART, {
        plan,
        settings: { stallTimeoutMs: 3_600_000 },
      });
      const stop = new AbortController();
      const source = open(stop.signal);
      const reading = failureOf(read(source, 0, 100));
      await new Promise(setImmediate);
      if (how === 'close of the source') await source.close();
      else if (how === 'signal') stop.abort();
      else await transfers.close();
      expect((await reading).code).toBe('Aborted');
      await source.close();
      await source.close();
      expect((await failureOf(read(source, 0, 1))).code).toBe('Aborted');
      expect((await failureOf(source.assertUnchanged())).code).toBe('Aborted');
      expect(isWhole(transfers)).toBe(true);
      await transfers.close();
    },
  );
});
