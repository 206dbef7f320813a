import type { RandomSource } from '@holdfast/core/contract';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { IdRun, TablePlace } from '../layout.ts';
import { sourceOf } from '../open/memory.ts';
import { readIds } from './read-ids.ts';
import { encodeIds, idsBytes } from './write-ids.ts';

const TAG = 0x12;

function packedBytes(ids: bigint[]): Uint8Array {
  const all = BigInt64Array.from(ids);
  const bytes = new Uint8Array(idsBytes(all));
  encodeIds(all, bytes);
  return bytes;
}

function unpackedBytes(ids: bigint[]): Uint8Array {
  return Buffer.concat(ids.flatMap((id) => [Buffer.of(TAG), packedBytes([id])]));
}

/** Runs with other bytes between them. */
function runsOf(groups: readonly (readonly [isPacked: boolean, ids: bigint[]])[]): [Uint8Array, IdRun[]] {
  const parts: Uint8Array[] = [];
  const runs: IdRun[] = [];
  let offsetBytes = 0;
  for (const [isPacked, ids] of groups) {
    const bytes = isPacked ? packedBytes(ids) : unpackedBytes(ids);
    parts.push(Buffer.of(0xff), bytes);
    runs.push({ offsetBytes: offsetBytes + 1, lengthBytes: bytes.byteLength, isPacked });
    offsetBytes += 1 + bytes.byteLength;
  }
  return [Buffer.concat(parts), runs];
}

function placeOf(rowCount: number, ids: readonly IdRun[]): TablePlace {
  const values = { offsetBytes: 0, lengthBytes: 0 };
  return { name: 't', dtype: 'float32', dim: 1, rowCount, values, ids };
}

async function idsOf(bytes: Uint8Array, place: TablePlace, bufferBytes?: number): Promise<bigint[]> {
  const all: bigint[] = [];
  for await (const { firstRow, ids } of readIds(sourceOf('f', bytes), place, { name: 'f', bufferBytes })) {
    expect(firstRow).toBe(all.length);
    expect(ids.length).toBeGreaterThan(0);
    expect(ids.length).toBeLessThanOrEqual(65_536);
    all.push(...ids);
  }
  return all;
}

const anyId = fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.bigInt(-3n, 300n));
const anyGroups = fc.array(fc.tuple(fc.boolean(), fc.array(anyId, { minLength: 1, maxLength: 60 })), {
  maxLength: 5,
});

describe('readIds', () => {
  test('any ids, packed and not, in any number of runs, whatever is read at once', async () => {
    await fc.assert(
      fc.asyncProperty(anyGroups, fc.integer({ min: 1, max: 200 }), async (groups, bufferBytes) => {
        const [bytes, runs] = runsOf(groups);
        const expected = groups.flatMap(([, ids]) => ids);
        expect(await idsOf(bytes, placeOf(expected.length, runs), bufferBytes)).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });

  test('every length of a varint, at its borders', async () => {
    const ids = Array.from({ length: 63 }, (_, bit) => 2n ** BigInt(bit)).flatMap((id) => [id - 1n, id, -id]);
    const [bytes, runs] = runsOf([[true, [...ids, -(2n ** 63n), 2n ** 63n - 1n]]]);
    expect(await idsOf(bytes, placeOf(ids.length + 2, runs))).toEqual([...ids, -(2n ** 63n), 2n ** 63n - 1n]);
  });

  test('chunks of 65,536, read in pieces of at most 1 MiB, no byte twice', async () => {
    const count = 400_000;
    const [bytes, runs] = runsOf([[true, Array.from({ length: count }, (_, at) => BigInt(at * 1000))]]);
    const reads: [number, number][] = [];
    const counting: RandomSource = {
      ...sourceOf('f', bytes),
      readInto: async (offset, buffer) => {
        reads.push([offset, buffer.byteLength]);
        buffer.set(bytes.subarray(offset, offset + buffer.byteLength));
      },
    };
    const sizes: number[] = [];
    let last = 0n;
    for await (const { ids } of readIds(counting, placeOf(count, runs), {
      name: 'f',
      bufferBytes: 2 ** 30,
    })) {
      sizes.push(ids.length);
      last = ids.at(-1) as bigint;
    }
    expect([sizes, last]).toEqual([[...new Array(6).fill(65_536), 6784], 399_999_000n]);
    expect(reads).toEqual([
      [1, 1_048_576],
      [1_048_577, bytes.byteLength - 1_048_577],
    ]);
  });

  test('no rows: no chunks', async () => {
    expect(await idsOf(new Uint8Array(0), placeOf(0, []))).toEqual([]);
  });

  test.each([
    [3, 'f: table "t", at byte 1: ids and rows of different count: expected 3, found 2'],
    [1, 'f: table "t", at byte 1: ids and rows of different count: expected 1, found 2 or more'],
  ])('%i rows and two ids: Corrupt', async (rows, message) => {
    const [bytes, runs] = runsOf([[true, [5n, 6n]]]);
    await expect(idsOf(bytes, placeOf(rows, runs))).rejects.toMatchObject({ code: 'Corrupt', message });
  });

  test('a varint that goes on behind its run: Corrupt, at the varint', async () => {
    const bytes = Buffer.of(1, 2, 0x83, 1);
    const place = placeOf(3, [{ offsetBytes: 0, lengthBytes: 3, isPacked: true }]);
    const message = 'f: table "t", at byte 2: the varint of an id has no end, or more than 64 bits';
    await expect(idsOf(bytes, place)).rejects.toMatchObject({ code: 'Corrupt', message });
  });

  test('a tag without an id: Corrupt', async () => {
    const place = placeOf(2, [{ offsetBytes: 0, lengthBytes: 3, isPacked: false }]);
    await expect(idsOf(Buffer.of(TAG, 1, TAG, 1), place)).rejects.toMatchObject({ code: 'Corrupt' });
  });

  test('the signal stops it between pieces', async () => {
    const [bytes, runs] = runsOf([[true, new Array(100_000).fill(2n ** 62n)]]);
    const stop = new AbortController();
    const chunks = readIds(sourceOf('f', bytes), placeOf(100_000, runs), {
      name: 'f',
      bufferBytes: 64,
      signal: stop.signal,
    });
    await chunks.next();
    stop.abort();
    await expect(chunks.next()).rejects.toMatchObject({ code: 'Aborted' });
  });
});
