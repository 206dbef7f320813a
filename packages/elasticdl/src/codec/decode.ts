/** Decodes a shard's file in memory to values. */

import {
  anyText,
  byteArray,
  checkOptions,
  oneOf,
  optional,
  type RandomSource,
} from '@holdfast/core/contract';
import { itemBytes } from '../dtype.ts';
import type { DtypeNumbering, TablePlace } from '../layout.ts';
import type { EmbeddingRows, ModelShard, Tensor } from '../model.ts';
import { sourceOf } from '../open/memory.ts';
import { survivingRows } from './decode-duplicates.ts';
import { readIds } from './read-ids.ts';
import { readShardLayout } from './read-layout.ts';

export interface DecodeOptions {
  /** Name of the file in messages. Default `shard`. */
  name?: string | undefined;
  /** As for `readShardLayout`. */
  numbering?: DtypeNumbering | undefined;
}

/**
 * Decodes a whole shard's file of any form. Values are views of `file`, which must not change while
 * they are in use. New memory is allocated only for ids, 8 bytes each, and for the values of tables
 * with repeated ids. If rows have the same id, the last one stays, in its position. Errors as from
 * `readShardLayout` and `readIds`.
 */
export async function decodeShard(file: Uint8Array, options: DecodeOptions = {}): Promise<ModelShard> {
  byteArray('file', file);
  checkOptions(options, { name: optional(anyText), numbering: optional(oneOf('elasticdl', 'tensorflow')) });
  const { name = 'shard', numbering } = options;
  // Views of a Buffer are Buffers, which compare and print differently.
  const bytes = new Uint8Array(file.buffer, file.byteOffset, file.byteLength);
  const source = sourceOf(name, bytes);
  const layout = await readShardLayout(source, { name, numbering });
  const dense = new Map<string, Tensor>();
  for (const { name: variable, dtype, shape, content } of layout.dense) {
    const data = bytes.subarray(content.offsetBytes, content.offsetBytes + content.lengthBytes);
    dense.set(variable, { dtype, shape, data });
  }
  const tables = new Map<string, EmbeddingRows>();
  for (const place of layout.tables) tables.set(place.name, await rowsOf(bytes, source, place, name));
  return { version: layout.version, infos: layout.infos, dense, tables };
}

async function rowsOf(
  bytes: Uint8Array,
  source: RandomSource,
  place: TablePlace,
  name: string,
): Promise<EmbeddingRows> {
  const { dtype, dim, rowCount, values: at } = place;
  const ids = new BigInt64Array(rowCount);
  for await (const chunk of readIds(source, place, { name })) ids.set(chunk.ids, chunk.firstRow);
  const values = bytes.subarray(at.offsetBytes, at.offsetBytes + at.lengthBytes);
  const rows = survivingRows(ids);
  if (!rows) return { dtype, dim, ids, values };
  const rowBytes = dim * itemBytes(dtype);
  const kept = { ids: new BigInt64Array(rows.length), values: new Uint8Array(rows.length * rowBytes) };
  rows.forEach((row, index) => {
    kept.ids[index] = ids[row] as bigint;
    kept.values.set(values.subarray(row * rowBytes, (row + 1) * rowBytes), index * rowBytes);
  });
  return { dtype, dim, ...kept };
}
