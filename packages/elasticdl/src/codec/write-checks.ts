/**
 * Checks a shard before it is written: anything that contradicts itself is `InvalidArgument` before
 * a byte is written.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { itemBytes } from '../dtype.ts';
import type { WrittenForm } from '../layout.ts';
import type { Dtype, EmbeddingRows, TableInfo, Tensor } from '../model.ts';
import type { ShardOutline, TableOutline } from '../sink.ts';
import { NAME_BYTES_MAX, RANK_MAX, SHORT_BYTES_MAX } from './limits.ts';
import { ID_BYTES_MAX } from './write-ids.ts';

/** Longest part of a name shown in a message. */
const QUOTED_MAX = 200;

function invalid(message: string, expected: string, found: string): CheckpointError {
  const text = `${message}: expected ${expected}, found ${found}`;
  return new CheckpointError('InvalidArgument', text, { context: { expected, found } });
}

/** The error for a type that has no number in the form. Only S4 lacks some. */
export function noTypeNumber(dtype: Dtype, what: string): CheckpointError {
  return new CheckpointError(
    'InvalidArgument',
    `${what} is of type ${dtype}, for which the form S4 has no number (it has bool, int8 to int64 and float16 to float64); write S7`,
  );
}

/** May exceed the integers that a number holds exactly; `checkOutline` rejects that. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/**
 * `InvalidArgument` unless this form can hold all of the shard, so that reading it returns the
 * same.
 */
export function checkOutline(outline: ShardOutline, form: WrittenForm): void {
  checkVersion(outline.version);
  const infos = checkInfos(outline.infos);
  const names = new Set<string>();
  for (const { name, dtype, shape } of outline.dense) {
    checkName(name, 'variable', names);
    checkShape(`variable "${name}"`, dtype, shape);
    checkDense(name, shape, infos, form);
  }
  for (const table of outline.tables) {
    checkName(table.name, 'table', names);
    checkTable(table, infos.get(table.name), form);
  }
}

function checkVersion(version: number): void {
  if (Number.isInteger(version) && version >= -(2 ** 31) && version < 2 ** 31) return;
  throw invalid('version of the shard', 'an integer from -2147483648 to 2147483647', String(version));
}

function checkInfos(infos: readonly TableInfo[]): Map<string, TableInfo> {
  const byName = new Map<string, TableInfo>();
  const names = new Set<string>();
  for (const info of infos) {
    checkName(info.name, 'info of table', names);
    checkSize(`info of table "${info.name}"`, 'dim', info.dim);
    checkText(`initializer of table "${info.name}"`, info.initializer, SHORT_BYTES_MAX);
    byName.set(info.name, info);
  }
  return byName;
}

function checkName(name: string, what: string, names: Set<string>): void {
  checkText(`name of ${what} ${JSON.stringify(name.slice(0, QUOTED_MAX))}`, name, NAME_BYTES_MAX);
  if (names.has(name)) throw invalid(`${what} "${name}"`, 'a name of its own', 'one that is there already');
  names.add(name);
}

function checkText(what: string, text: string, bytesMax: number): void {
  // Malformed Unicode would change when written as UTF-8.
  if (!text.isWellFormed()) throw invalid(what, 'Unicode', 'half a surrogate pair');
  const bytes = new TextEncoder().encode(text).byteLength;
  if (bytes > bytesMax) throw invalid(what, `at most ${bytesMax} bytes of UTF-8`, `${bytes}`);
}

function checkSize(what: string, part: string, size: number): void {
  if (Number.isSafeInteger(size) && size >= 0) return;
  throw invalid(`${part} of ${what}`, 'an integer from 0 to 2^53 - 1', String(size));
}

function checkShape(what: string, dtype: Dtype, shape: readonly number[]): void {
  if (shape.length > RANK_MAX)
    throw invalid(`shape of ${what}`, `at most ${RANK_MAX} dimensions`, `${shape.length}`);
  for (const size of shape) checkSize(what, 'shape', size);
  const bytes = elementCount(shape) * itemBytes(dtype);
  if (!Number.isSafeInteger(bytes))
    throw invalid(`size of ${what}`, 'less than 2^53 bytes', `${bytes} bytes`);
}

function checkDense(
  name: string,
  shape: readonly number[],
  infos: ReadonlyMap<string, TableInfo>,
  form: WrittenForm,
): void {
  if (infos.has(name))
    throw invalid(
      `variable "${name}"`,
      'no info of a table of its name',
      'one, so it would be read as a table',
    );
  if (form === 'S4' && shape.length === 0) {
    throw new CheckpointError(
      'InvalidArgument',
      `variable "${name}" is a scalar, which the form S4 cannot hold; write S7`,
    );
  }
}

function checkTable(table: TableOutline, info: TableInfo | undefined, form: WrittenForm): void {
  const { name, dtype, dim, rowCount, idsBytes } = table;
  const what = `table "${name}"`;
  checkShape(what, dtype, [rowCount, dim]);
  checkSize(what, 'bytes of ids', idsBytes);
  if (rowCount > 0 && dim === 0)
    throw invalid(what, 'rows of at least 1 element', `${rowCount} rows of none`);
  if (idsBytes < rowCount || idsBytes > rowCount * ID_BYTES_MAX) {
    const expected = `${rowCount} to ${rowCount * ID_BYTES_MAX} for ${rowCount} rows`;
    throw invalid(`bytes of ids of ${what}`, expected, String(idsBytes));
  }
  // For a table without rows, S4 stores the info and nothing else.
  if ((rowCount > 0 || form === 'S4') && info?.dim !== dim) {
    const found = info === undefined ? 'none' : `one with rows of ${info.dim}`;
    throw invalid(what, `an info with rows of ${dim} elements`, found);
  }
}

/** `InvalidArgument` unless the number of bytes is exactly what type and shape need. */
export function checkTensor(name: string, { dtype, shape, data }: Tensor): void {
  const bytes = elementCount(shape) * itemBytes(dtype);
  if (data.length === bytes) return;
  const expected = `${bytes} bytes for ${dtype} [${shape.join(', ')}]`;
  throw invalid(`elements of variable "${name}"`, expected, `${data.length}`);
}

/** `InvalidArgument` unless there are exactly as many rows as ids. */
export function checkRows(name: string, { dtype, dim, ids, values }: EmbeddingRows): void {
  const bytes = ids.length * dim * itemBytes(dtype);
  if (values.length === bytes) return;
  const expected = `${bytes} bytes for ${ids.length} ids with ${dim} × ${dtype} each`;
  throw invalid(`rows of table "${name}"`, expected, `${values.length}`);
}
