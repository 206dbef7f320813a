/** Generates plain ElasticDL files of any size. */

import { randomFillSync } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { encodeShard, type ModelShard, outlineFile, shardFile } from '@holdfast/elasticdl';

const DIM = 64;
const ROW_BYTES = 4 * DIM;
const TABLE_COUNT = 4;
const PATTERN_BYTES = 2 ** 20;

/**
 * Writes embeddings of `sizeBytes` in total, float32 with 64 elements, in four tables. Each file
 * has the shuffled ids of its index.
 */
export async function writeCheckpoint(directory: string, count: number, sizeBytes: number): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const rowCount = Math.floor(sizeBytes / ROW_BYTES / TABLE_COUNT / count);
  for (let index = 0; index < count; index++) {
    const { chunks } = encodeShard(shardOf(index, count, rowCount));
    const file = await open(join(directory, shardFile(index, count)), 'w');
    await pipeline(chunks, file.createWriteStream({ flush: true }));
  }
}

function shardOf(index: number, count: number, rowCount: number): ModelShard {
  const names = Array.from({ length: TABLE_COUNT }, (_, table) => `embedding_${table}/embeddings:0`);
  const values = patterned(rowCount * ROW_BYTES);
  return {
    version: 100,
    infos: names.map((name) => ({ name, dim: DIM, initializer: 'uniform', dtype: 'float32' })),
    dense: new Map([
      [`dense_${index}/kernel:0`, { dtype: 'float32', shape: [256, 64], data: values.subarray(0, 65_536) }],
    ]),
    tables: new Map(
      names.map((name) => [
        name,
        { dtype: 'float32', dim: DIM, ids: shuffledIds(index, count, rowCount), values },
      ]),
    ),
  };
}

function patterned(sizeBytes: number): Uint8Array {
  const values = new Uint8Array(sizeBytes);
  const pattern = randomFillSync(new Uint8Array(Math.min(PATTERN_BYTES, sizeBytes)));
  for (let at = 0; at < sizeBytes; at += pattern.byteLength)
    values.set(pattern.subarray(0, sizeBytes - at), at);
  return values;
}

function shuffledIds(index: number, count: number, rowCount: number): BigInt64Array {
  const ids = BigInt64Array.from({ length: rowCount }, (_, row) => BigInt(row * count + index));
  for (let at = rowCount - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [ids[at], ids[other]] = [ids[other] ?? 0n, ids[at] ?? 0n];
  }
  return ids;
}

const VARIABLE_COUNT = 200;

/**
 * Writes one shard of about `sizeBytes` whose values are a hole in the file. Only its structure is
 * stored, and only that is read.
 */
export async function writeHollowShard(directory: string, sizeBytes: number): Promise<void> {
  mkdirSync(directory, { recursive: true });
  const tables = Array.from({ length: 20 }, (_, table) => ({
    name: `embedding_${table}/embeddings:0`,
    dtype: 'float32' as const,
    dim: DIM,
    // Every id in a hole is 0 and takes one byte.
    rowCount: Math.floor(sizeBytes / 20 / (ROW_BYTES + 1)),
    idsBytes: Math.floor(sizeBytes / 20 / (ROW_BYTES + 1)),
  }));
  const infos = tables.map(({ name, dtype }) => ({ name, dim: DIM, initializer: 'uniform', dtype }));
  const dense = Array.from({ length: VARIABLE_COUNT }, (_, at) => ({
    name: `dense_${at}/kernel:0`,
    dtype: 'float32' as const,
    shape: [64, 64],
  }));
  const outline = outlineFile({ version: 100, infos, dense, tables }, 'S7');
  const file = await open(join(directory, shardFile(0, 1)), 'w');
  try {
    await file.truncate(outline.sizeBytes);
    for (const piece of outline.pieces)
      if (piece.kind === 'literal')
        await file.write(piece.bytes, 0, piece.bytes.byteLength, piece.offsetBytes);
  } finally {
    await file.close();
  }
}
