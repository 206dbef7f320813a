/** Encodes a shard in memory to the bytes of an ElasticDL file. */

import { listOf, plainObject, rule } from '@holdfast/core/contract';
import type { WrittenForm } from '../layout.ts';
import type { EmbeddingRows, ModelShard, Tensor } from '../model.ts';
import { aForm } from '../rules.ts';
import type { ShardOutline } from '../sink.ts';
import { type FilePiece, outlineFile } from './outline-file.ts';
import { checkRows, checkTensor } from './write-checks.ts';
import { encodeIds, idsBytes } from './write-ids.ts';

/** This many ids take less than 1 MiB. */
const IDS_PER_CHUNK = 65_536;

export interface EncodedShard {
  readonly sizeBytes: number;
  /**
   * Yields the file from its start, on each call. Elements and rows are views of the shard's
   * memory, which must not change until the chunks are used. Only heads and ids are copied, in
   * pieces of less than 1 MiB.
   */
  chunks(): Iterable<Uint8Array>;
}

/**
 * The same bytes as google.protobuf's deterministic serialization; see `outlineFile`. Throws
 * `InvalidArgument` at once for a shard that contradicts itself, or that the form cannot hold. The
 * message names the variable or table, and what was expected and found.
 */
export function encodeShard(shard: ModelShard, form: WrittenForm = 'S7'): EncodedShard {
  plainObject('shard', shard);
  listOf(plainObject)('infos', shard.infos);
  aMap('dense', shard.dense);
  aMap('tables', shard.tables);
  aForm('form', form);
  const { sizeBytes, pieces } = outlineFile(outlineOf(shard), form);
  return { sizeBytes, chunks: () => chunksOf(shard, pieces) };
}

const aMap = rule((value) => value instanceof Map, 'a Map');

function outlineOf({ version, infos, dense, tables }: ModelShard): ShardOutline {
  return {
    version,
    infos,
    dense: Array.from(dense, ([name, tensor]) => {
      checkTensor(name, tensor);
      return { name, dtype: tensor.dtype, shape: tensor.shape };
    }),
    tables: Array.from(tables, ([name, rows]) => {
      checkRows(name, rows);
      const { dtype, dim, ids } = rows;
      return { name, dtype, dim, rowCount: ids.length, idsBytes: idsBytes(ids) };
    }),
  };
}

function* chunksOf({ dense, tables }: ModelShard, pieces: readonly FilePiece[]): Iterable<Uint8Array> {
  for (const piece of pieces) {
    if (piece.kind === 'literal') yield piece.bytes;
    else if (piece.kind === 'dense') yield (dense.get(piece.name) as Tensor).data;
    else if (piece.kind === 'values') yield (tables.get(piece.name) as EmbeddingRows).values;
    else yield* encodedIds((tables.get(piece.name) as EmbeddingRows).ids);
  }
}

function* encodedIds(ids: BigInt64Array): Iterable<Uint8Array> {
  for (let first = 0; first < ids.length; first += IDS_PER_CHUNK) {
    const some = ids.subarray(first, first + IDS_PER_CHUNK);
    const bytes = new Uint8Array(idsBytes(some));
    encodeIds(some, bytes);
    yield bytes;
  }
}
