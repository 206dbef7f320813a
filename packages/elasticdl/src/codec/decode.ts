/** A shard's file that is in memory, as values. */

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
  /** Of the file, in messages: `shard` unless told. */
  name?: string | undefined;
  /** As for `readShardLayout`. */
  numbering?: DtypeNumbering | undefined;
}

/**
 * All that a shard's file holds, whatever its form. Values are views on `file`, which must not change while they are in use; only ids are
 * new memory, 8 bytes each, and the values of tables in which an id stands more than once: of such rows the last one stays, where it is.
 * Errors as from `readShardLayout` and `readIds`.
 */
export async function decodeShard(file: Uint8Array, options: DecodeOptions = {}): Promise<ModelShard> {
  byteArray('file', file);
  checkOptions(options, { name: optional(anyText), numbering: optional(oneOf('elasticdl', 'tensorflow')) });
  const { name = 'shard', numbering } = options;
  // A Buffer has views that are Buffers, and those compare and print otherwise.
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
