/** A shard in memory as the bytes of a file of ElasticDL's. */

import { listOf, plainObject, rule } from '@holdfast/core/contract';
import type { WrittenForm } from '../layout.ts';
import type { EmbeddingRows, ModelShard, Tensor } from '../model.ts';
import { aForm } from '../rules.ts';
import type { ShardOutline } from '../sink.ts';
import { type FilePiece, outlineFile } from './outline-file.ts';
import { checkRows, checkTensor } from './write-checks.ts';
import { encodeIds, idsBytes } from './write-ids.ts';

/** So many ids take less than 1 MiB. */
const IDS_PER_CHUNK = 65_536;

export interface EncodedShard {
  readonly sizeBytes: number;
  /**
   * The file from its beginning, each time it is called. Elements and rows are views on the shard's memory, which has to stay as it is until
   * the chunks have been used; what is copied are heads and ids, in pieces of less than 1 MiB.
   */
  chunks(): Iterable<Uint8Array>;
}

/**
 * The same bytes as google.protobuf's deterministic serialization; see `outlineFile`. `InvalidArgument`, at once, for a shard that
 * contradicts itself, or that the form cannot hold; the message names variable or table, what was expected and what was found.
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
