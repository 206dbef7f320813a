/**
 * Computes which parameter server holds a variable or a row. The results are those of ElasticDL's
 * hash_utils in Python and in Go, except that the Go version loses negative ids.
 */

import { createHash } from 'node:crypto';
import { anyText, byteArray, CheckpointError, rule, wholeNumber } from '@holdfast/core/contract';
import { HIGH, LOW, wordsOf } from './id-halves.ts';

/** The highest number of parts that a model can be divided into. */
const BUCKET_COUNT_MAX = 2 ** 31 - 1;

const aBucketCount = wholeNumber(1, BUCKET_COUNT_MAX);
const manyIds = rule((value) => value instanceof BigInt64Array, 'a BigInt64Array');
const manyBucketNumbers = rule((value) => value instanceof Uint32Array, 'a Uint32Array');
const anId = rule((value) => typeof value === 'bigint', 'a bigint');

function checkBucketCount(bucketCount: number): void {
  aBucketCount('bucketCount', bucketCount);
}

/**
 * Part of a dense variable, 0 to `bucketCount - 1`: the hexadecimal digits of the SHA-256 of its
 * name, read as digits in base 32, modulo `bucketCount` (1 to 2^31 - 1, otherwise
 * `InvalidArgument`). Base 32 is ElasticDL's choice: with 32 parts, no variable is ever in parts 16
 * to 31.
 */
export function stringToId(name: string, bucketCount: number): number {
  anyText('name', name);
  checkBucketCount(bucketCount);
  let id = 0;
  for (const byte of createHash('sha256').update(name, 'utf8').digest()) {
    id = (id * 32 + (byte >> 4)) % bucketCount;
    id = (id * 32 + (byte & 15)) % bucketCount;
  }
  return id;
}

/**
 * Part of the row of an id, 0 to `bucketCount - 1`. The modulo is Python's, so negative ids have a
 * part too. `bucketCount` as in `stringToId`.
 */
export function intToId(id: bigint, bucketCount: number): number {
  anId('id', id);
  checkBucketCount(bucketCount);
  const count = BigInt(bucketCount);
  return Number(((id % count) + count) % count);
}

/**
 * Writes the `intToId` of each id to the same index of `into`. `InvalidArgument` if `into` is
 * shorter than `ids`.
 */
export function bucketsOf(ids: BigInt64Array, bucketCount: number, into: Uint32Array): void {
  checkBucketCount(bucketCount);
  manyIds('ids', ids);
  manyBucketNumbers('into', into);
  if (into.length < ids.length) {
    throw new CheckpointError(
      'InvalidArgument',
      `there is room for the parts of ${into.length} ids; there are ${ids.length}`,
    );
  }
  if (bucketCount <= 2 ** 15) fewBuckets(ids, bucketCount, into);
  else manyBuckets(ids, bucketCount, into);
}

/** All values stay within 32 bits, so the engine can use integer arithmetic throughout. */
function fewBuckets(ids: BigInt64Array, bucketCount: number, into: Uint32Array): void {
  const words = wordsOf(ids);
  // 2^32 modulo the count. It is below 2^15, as is each half's remainder, so the product is below
  // 2^30.
  const highWeight = 2 ** 32 % bucketCount;
  for (let i = 0; i < ids.length; i += 1) {
    const low = (words[2 * i + LOW] as number) % bucketCount;
    const high = (words[2 * i + HIGH] as number) | 0;
    // JavaScript's remainder of a negative number is negative; Python's is not.
    const remainder = high === 0 ? 0 : (high % bucketCount) + (high < 0 ? bucketCount : 0);
    into[i] = (((remainder * highWeight) | 0) + low) % bucketCount;
  }
}

/**
 * Works in steps of 16 bits: a remainder below 2^31 with 16 more bits is below 2^47, which a double
 * holds exactly.
 */
function manyBuckets(ids: BigInt64Array, bucketCount: number, into: Uint32Array): void {
  const words = wordsOf(ids);
  for (let i = 0; i < ids.length; i += 1) {
    const low = words[2 * i + LOW] as number;
    const high = (words[2 * i + HIGH] as number) | 0;
    let remainder = (high % bucketCount) + (high < 0 ? bucketCount : 0);
    remainder = (remainder * 65_536 + (low >>> 16)) % bucketCount;
    into[i] = (remainder * 65_536 + (low & 0xffff)) % bucketCount;
  }
}

export interface ScatteredRows {
  readonly ids: BigInt64Array;
  readonly values: Uint8Array;
}

/**
 * Divides rows of `rowBytes` bytes by their ids, as `scatter_embedding_vector` does. Parts are in
 * the order of their first id, and parts without rows are absent. Within a part, rows keep their
 * order, and repeated ids are kept. Copies everything. `InvalidArgument` if the numbers of rows and
 * ids differ.
 */
export function scatterEmbeddingVector(
  ids: BigInt64Array,
  values: Uint8Array,
  rowBytes: number,
  bucketCount: number,
): Map<number, ScatteredRows> {
  manyIds('ids', ids);
  byteArray('values', values);
  wholeNumber(0)('rowBytes', rowBytes);
  if (values.length !== ids.length * rowBytes) {
    throw new CheckpointError(
      'InvalidArgument',
      `${ids.length} ids go with rows of ${ids.length} × ${rowBytes} bytes; the rows have ${values.length} bytes`,
    );
  }
  const buckets = new Uint32Array(ids.length);
  bucketsOf(ids, bucketCount, buckets);
  const counts = new Map<number, number>();
  for (const bucket of buckets) counts.set(bucket, (counts.get(bucket) ?? 0) + 1);

  const scattered = new Map<number, ScatteredRows>();
  const writers = new Map<number, RowWriter>();
  for (const [bucket, count] of counts) {
    const rows = { ids: new BigInt64Array(count), values: new Uint8Array(count * rowBytes) };
    scattered.set(bucket, rows);
    writers.set(bucket, { words: wordsOf(rows.ids), values: rows.values, rowCount: 0 });
  }
  const words = wordsOf(ids);
  buckets.forEach((bucket, row) => {
    const writer = writers.get(bucket) as RowWriter;
    writer.words[2 * writer.rowCount] = words[2 * row] as number;
    writer.words[2 * writer.rowCount + 1] = words[2 * row + 1] as number;
    writer.values.set(values.subarray(row * rowBytes, (row + 1) * rowBytes), writer.rowCount * rowBytes);
    writer.rowCount += 1;
  });
  return scattered;
}

interface RowWriter {
  readonly words: Uint32Array;
  readonly values: Uint8Array;
  rowCount: number;
}
