/**
 * Decides which tables are exported, and how: by their names, the length of their rows, and the
 * caller's options.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { quoted } from '../codec/read-errors.ts';

/** Number of rows of dense tables. */
export type RowCount = number | 'highest';

export interface TableOptions<Count extends RowCount = RowCount> {
  /**
   * `sparse`, the default: `<table>.ids` (I64) and `<table>.values`, row by row. `dense`:
   * `<table>`, where row `i` belongs to id `i`, and is zero if the checkpoint has no such id.
   */
  readonly tables?: 'sparse' | 'dense' | undefined;
  /**
   * Number of rows by name of the table, 0 to 2^32. These tables are dense, whatever the others
   * are.
   */
  readonly rowCounts?: Readonly<Record<string, number>> | undefined;
  /**
   * Number of rows of every other dense table. `highest`: one more than the highest id, for ids
   * that are counters. It is rejected above 100,000,000 rows, which ids that are hashes would need.
   * Required for `dense`, unless all tables are in `rowCounts`.
   */
  readonly rowCount?: Count | undefined;
  /**
   * Default false: leaves out tables with an optimizer's slots for another table, named
   * `<table>-<slot>`.
   */
  readonly keepSlots?: boolean | undefined;
}

export type TableStorage<Count extends RowCount = RowCount> =
  | { readonly kind: 'sparse' }
  | { readonly kind: 'dense'; readonly rowCount: number | Count };

export interface StoredTables<Count extends RowCount> {
  /** By name. */
  readonly kept: ReadonlyMap<string, TableStorage<Count>>;
  readonly dropped: readonly string[];
}

export interface NamedTable {
  readonly name: string;
  readonly dim: number;
}

/** Ids then fit into 32 bits. A table of more rows would be almost empty. */
export const DENSE_ROWS_MAX = 2 ** 32;

const NAMES_SHOWN_MAX = 10;

/**
 * Slots of the optimizers that ElasticDL trains embeddings with: `allowed_slot_names` in
 * elasticdl/python/ps/optimizer_wrapper.py. `get_slot_table_name` in embedding_table.py appends
 * them to the table's name.
 */
const SLOTS: ReadonlySet<string> = new Set([
  'accum_grad',
  'accum_var',
  'accumulator',
  'linear',
  'm',
  'mg',
  'momentum',
  'rms',
  'v',
  'vhat',
]);

/**
 * `InvalidArgument`: a number of rows is out of range or missing, or is for a table that is not
 * exported.
 */
export function storeTables<Count extends RowCount>(
  tables: readonly NamedTable[],
  options: TableOptions<Count>,
): StoredTables<Count> {
  checkTableOptions(options);
  const rowCounts = new Map(Object.entries(options.rowCounts ?? {}));
  const dims = new Map(tables.map(({ name, dim }) => [name, dim]));
  const dropped = new Set<string>();
  if (!options.keepSlots) for (const table of tables) if (isSlot(table, dims)) dropped.add(table.name);
  for (const name of rowCounts.keys()) checkIsKept(name, dims, dropped);
  const kept = new Map<string, TableStorage<Count>>();
  for (const { name } of tables)
    if (!dropped.has(name)) kept.set(name, storageOf(name, rowCounts.get(name), options));
  return { kept, dropped: [...dropped] };
}

/** Whether any table may be dense. */
export function asksForDense({ tables, rowCounts }: TableOptions): boolean {
  return tables === 'dense' || Object.keys(rowCounts ?? {}).length > 0;
}

/** `InvalidArgument` for errors that can be found without the model. */
export function checkTableOptions({ tables = 'sparse', rowCounts = {}, rowCount }: TableOptions): void {
  if (tables !== 'sparse' && tables !== 'dense')
    throw new CheckpointError('InvalidArgument', `tables is "${tables}"; it takes "sparse" or "dense"`);
  for (const [name, count] of Object.entries(rowCounts))
    checkRowCount(`rowCounts of table ${quoted(name)}`, count);
  if (rowCount === undefined) return;
  if (rowCount !== 'highest') checkRowCount('rowCount', rowCount);
  if (tables === 'sparse') {
    throw rowCountRefusal('rowCount is the number of rows of dense tables, but tables is "sparse"');
  }
}

function checkRowCount(what: string, count: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= DENSE_ROWS_MAX) return;
  throw rowCountRefusal(`${what} is ${count}; it takes a whole number from 0 to ${DENSE_ROWS_MAX}`);
}

/**
 * A user's own table may have such a name too, but then its rows are unlikely to have the same
 * length.
 */
function isSlot({ name, dim }: NamedTable, dims: ReadonlyMap<string, number>): boolean {
  const at = name.lastIndexOf('-');
  return at >= 0 && SLOTS.has(name.slice(at + 1)) && dims.get(name.slice(0, at)) === dim;
}

function checkIsKept(name: string, dims: ReadonlyMap<string, number>, dropped: ReadonlySet<string>): void {
  if (!dims.has(name)) {
    const known = dims.size === 0 ? 'it has none' : `it has ${namesOf(dims)}`;
    throw rowCountRefusal(`rowCounts names table ${quoted(name)}, which the model does not have; ${known}`);
  }
  if (dropped.has(name)) {
    throw rowCountRefusal(
      `rowCounts names table ${quoted(name)}, which is left out as a slot of an optimizer; keepSlots keeps it`,
    );
  }
}

function namesOf(dims: ReadonlyMap<string, number>): string {
  const names = [...dims.keys()];
  const left = names.length - NAMES_SHOWN_MAX;
  const shown = names.slice(0, NAMES_SHOWN_MAX).map(quoted).join(', ');
  return left > 0 ? `${shown} and ${left} more` : shown;
}

function storageOf<Count extends RowCount>(
  name: string,
  ownCount: number | undefined,
  options: TableOptions<Count>,
): TableStorage<Count> {
  if (ownCount === undefined && options.tables !== 'dense') return { kind: 'sparse' };
  const rowCount: number | Count | undefined = ownCount ?? options.rowCount;
  if (rowCount !== undefined) return { kind: 'dense', rowCount };
  throw rowCountRefusal(
    `table ${quoted(name)} is dense, and its number of rows is not given; pass rowCounts or rowCount`,
  );
}

/**
 * `context.option` names the option, because other interfaces of the library use another name for
 * it.
 */
function rowCountRefusal(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message, { context: { option: 'rowCounts' } });
}
