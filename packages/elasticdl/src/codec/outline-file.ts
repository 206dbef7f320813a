/**
 * Positions of everything in an ElasticDL file for a given shard, computed before its values are
 * known.
 */

import { FORMS, TENSORFLOW } from '@holdfast/wire/elasticdl';
import { itemBytes, numberOfDtype } from '../dtype.ts';
import type { DtypeNumbering, WrittenForm } from '../layout.ts';
import type { Dtype, TableInfo } from '../model.ts';
import type { DenseOutline, ShardOutline, TableOutline } from '../sink.ts';
import { checkOutline, elementCount, noTypeNumber } from './write-checks.ts';
import { type Content, joined, Message, type MessagePart } from './write-message.ts';

export interface LiteralPiece {
  readonly kind: 'literal';
  readonly offsetBytes: number;
  readonly bytes: Uint8Array;
}

/**
 * Position of the elements of a dense variable, or of the rows or the ids (varints, one after the
 * other) of a table. Never empty.
 */
export interface ContentPiece extends Content {
  readonly offsetBytes: number;
}

export type FilePiece = LiteralPiece | ContentPiece;

export interface FileOutline {
  readonly sizeBytes: number;
  /** In the order of the file, without a gap. Empty contents have no piece. */
  readonly pieces: readonly FilePiece[];
}

/**
 * The same bytes as google.protobuf's deterministic serialization of the same model. Maps of S7 are
 * in the order of their keys' UTF-8, lists in the given order. In S4, dense variables come before
 * tables. S4 omits tables without rows: their infos show that they exist. Sizes go up to 2^53, but
 * google.protobuf and therefore ElasticDL read no file of more than 2 GiB.
 *
 * `InvalidArgument` for an outline that contradicts itself or lacks the info of a table with rows.
 * In S4 also for:
 * - a table without rows or info
 * - a scalar
 * - a type that ElasticDL had no number for
 * - a dense variable that an info declares a table
 */
export function outlineFile(outline: ShardOutline, form: WrittenForm): FileOutline {
  checkOutline(outline, form);
  const message = form === 'S4' ? modelOfS4(outline) : modelOfS7(outline);
  return { sizeBytes: message.lengthBytes, pieces: piecesOf(message.parts) };
}

function numberOf(dtype: Dtype, numbering: DtypeNumbering, what: string): number {
  const number = numberOfDtype(dtype, numbering);
  if (number === null) throw noTypeNumber(dtype, what);
  return number;
}

function denseContent({ name, dtype, shape }: DenseOutline): Content {
  return { kind: 'dense', name, lengthBytes: elementCount(shape) * itemBytes(dtype) };
}

function valuesContent({ name, dtype, dim, rowCount }: TableOutline): Content {
  return { kind: 'values', name, lengthBytes: elementCount([rowCount, dim]) * itemBytes(dtype) };
}

function idsContent({ name, idsBytes }: TableOutline): Content {
  return { kind: 'ids', name, lengthBytes: idsBytes };
}

function modelOfS4({ version, infos, dense, tables }: ShardOutline): Message {
  const fields = FORMS.S4;
  const model = new Message().number(fields.Model.version, version);
  const tensor = (name: string, shape: readonly number[], content: Content) =>
    new Message()
      .text(fields.Tensor.name, name)
      .packed(fields.Tensor.dim, shape)
      .content(fields.Tensor.content, content);
  for (const variable of dense) {
    const { name, dtype, shape } = variable;
    const type = numberOf(dtype, 'elasticdl', `variable "${name}"`);
    const message = tensor(name, shape, denseContent(variable)).number(fields.Tensor.dtype, type);
    model.message(fields.Model.param, message);
  }
  for (const table of tables.filter(({ rowCount }) => rowCount > 0)) {
    const type = numberOf(table.dtype, 'elasticdl', `table "${table.name}"`);
    const message = tensor(table.name, [table.rowCount, table.dim], valuesContent(table))
      .content(fields.Tensor.indices, idsContent(table))
      .number(fields.Tensor.dtype, type);
    model.message(fields.Model.param, message);
  }
  for (const info of infos)
    model.message(fields.Model.embeddingTableInfo, infoMessage(info, fields.EmbeddingTableInfo));
  return model;
}

function modelOfS7({ version, infos, dense, tables }: ShardOutline): Message {
  const fields = FORMS.S7;
  const model = new Message().number(fields.Model.version, version);
  for (const info of infos) {
    const { dtype } = fields.EmbeddingTableInfo;
    const type = info.dtype === null ? 0 : numberOf(info.dtype, 'tensorflow', `table "${info.name}"`);
    const message = infoMessage(info, fields.EmbeddingTableInfo).number(dtype, type);
    model.message(fields.Model.embeddingTableInfos, message);
  }
  for (const variable of sortedByKey(dense)) {
    const { name, dtype, shape } = variable;
    const tensor = tensorProto(name, dtype, shape, denseContent(variable));
    model.message(fields.Model.denseParameters, mapEntry(name, tensor));
  }
  for (const table of sortedByKey(tables)) {
    const { name, dtype, rowCount, dim } = table;
    const slices = new Message()
      .message(
        fields.IndexedSlicesProto.concatTensors,
        tensorProto(name, dtype, [rowCount, dim], valuesContent(table)),
      )
      .content(fields.IndexedSlicesProto.ids, idsContent(table));
    model.message(fields.Model.embeddingTables, mapEntry(name, slices));
  }
  return model;
}

/** The fields of both forms. The type, which only S7 has, comes last in the message. */
function infoMessage(
  { name, dim, initializer }: TableInfo,
  fields: { readonly name: number; readonly dim: number; readonly initializer: number },
): Message {
  return new Message().text(fields.name, name).number(fields.dim, dim).text(fields.initializer, initializer);
}

function tensorProto(name: string, dtype: Dtype, shape: readonly number[], content: Content): Message {
  const { TensorProto, TensorShapeProto, Dim } = TENSORFLOW;
  const tensor = new Message().number(TensorProto.dtype, numberOf(dtype, 'tensorflow', `"${name}"`));
  const dims = new Message();
  for (const size of shape) dims.message(TensorShapeProto.dim, new Message().number(Dim.size, size));
  // ElasticDL omits the shape of a scalar.
  if (shape.length > 0) tensor.message(TensorProto.tensorShape, dims);
  return tensor.content(TensorProto.tensorContent, content);
}

/**
 * A map is a list of messages with these two fields; both are always written.
 * https://protobuf.dev/programming-guides/encoding/#maps
 */
const MAP_ENTRY = { key: 1, value: 2 } as const;

function mapEntry(name: string, value: Message): Message {
  return new Message().key(MAP_ENTRY.key, name).message(MAP_ENTRY.value, value);
}

function sortedByKey<T extends { readonly name: string }>(entries: readonly T[]): T[] {
  return entries
    .map((entry) => ({ entry, key: Buffer.from(entry.name, 'utf8') }))
    .sort((a, b) => Buffer.compare(a.key, b.key))
    .map(({ entry }) => entry);
}

function piecesOf(parts: readonly MessagePart[]): FilePiece[] {
  let offsetBytes = 0;
  return joined(parts).map((part) => {
    const piece: FilePiece =
      part instanceof Uint8Array
        ? { kind: 'literal', offsetBytes, bytes: part }
        : { kind: part.kind, name: part.name, lengthBytes: part.lengthBytes, offsetBytes };
    offsetBytes += part instanceof Uint8Array ? part.length : part.lengthBytes;
    return piece;
  });
}
