/** What the exported file will hold and where, and what is told of it: in its own header, and once more in the JSON beside it. */

import { quoted } from '../codec/read-errors.ts';
import type { Dtype } from '../model.ts';
import type { ShardOutline, TableOutline } from '../sink.ts';
import { layOutSafetensors, type SafetensorsLayout, type TensorToLayOut } from './safetensors-header.ts';
import { storeTables, type TableOptions, type TableStorage } from './table-storage.ts';

/** What the JSON says it is; other fields, other number. */
const FORM = 'holdfast-elasticdl-export-1';

export interface ExportedTable {
  readonly name: string;
  readonly dim: number;
  readonly dtype: Dtype;
  /** `null`: nothing tells. */
  readonly initializer: string | null;
  readonly stored: 'sparse' | 'dense';
  /** Rows of the checkpoint. The tensor of a dense table has as many as were asked for. */
  readonly rowCount: number;
}

/** The JSON beside the file. In the file's own metadata `version` and `tables` are JSON as strings. */
export interface ExportDocument {
  readonly form: string;
  readonly version: number;
  readonly tables: readonly ExportedTable[];
}

/** Where a table goes; positions are those in the file. */
export type TablePlan =
  | { readonly kind: 'sparse'; readonly idsOffsetBytes: number; readonly valuesOffsetBytes: number }
  | { readonly kind: 'dense'; readonly offsetBytes: number; readonly rowCount: number };

export interface ExportPlan {
  readonly layout: SafetensorsLayout;
  readonly document: ExportDocument;
  /** Of variables, by name: where they begin in the file. */
  readonly dense: ReadonlyMap<string, number>;
  /** Without those that are left out. */
  readonly tables: ReadonlyMap<string, TablePlan>;
  /** Names of tables. */
  readonly dropped: readonly string[];
}

/** `InvalidArgument`: as `storeTables` and `layOutSafetensors`. */
export function planExport(
  { version, infos, dense, tables }: ShardOutline,
  options: TableOptions<number>,
): ExportPlan {
  const { kept, dropped } = storeTables(tables, options);
  const stored = tables.flatMap((table) => {
    const storage = kept.get(table.name);
    return storage === undefined ? [] : [{ table, storage }];
  });
  const initializers = new Map(infos.map(({ name, initializer }) => [name, initializer]));
  const document: ExportDocument = {
    form: FORM,
    version,
    tables: stored.map(({ table: { name, dim, dtype, rowCount }, storage: { kind } }) => {
      return { name, dim, dtype, initializer: initializers.get(name) ?? null, stored: kind, rowCount };
    }),
  };
  const layout = layOutSafetensors(
    [
      ...dense.map((variable) => ({ ...variable, what: `variable ${quoted(variable.name)}` })),
      ...stored.flatMap(({ table, storage }) => tensorsOf(table, storage)),
    ],
    { form: FORM, version: String(version), tables: JSON.stringify(document.tables) },
  );
  const offsets = new Map(layout.tensors.map(({ name, offsetBytes }) => [name, offsetBytes]));
  return {
    layout,
    document,
    dense: new Map(dense.map(({ name }) => [name, offsets.get(name) as number])),
    tables: new Map(stored.map(({ table: { name }, storage }) => [name, placeOf(name, storage, offsets)])),
    dropped,
  };
}

const idsOf = (table: string) => `${table}.ids`;
const valuesOf = (table: string) => `${table}.values`;

function tensorsOf(
  { name, dtype, dim, rowCount }: TableOutline,
  storage: TableStorage<number>,
): TensorToLayOut[] {
  const what = `table ${quoted(name)}`;
  if (storage.kind === 'dense') return [{ name, dtype, shape: [storage.rowCount, dim], what }];
  return [
    { name: idsOf(name), dtype: 'int64', shape: [rowCount], what: `the ids of ${what}` },
    { name: valuesOf(name), dtype, shape: [rowCount, dim], what: `the rows of ${what}` },
  ];
}

function placeOf(
  name: string,
  storage: TableStorage<number>,
  offsets: ReadonlyMap<string, number>,
): TablePlan {
  const at = (tensor: string) => offsets.get(tensor) as number;
  if (storage.kind === 'dense') return { kind: 'dense', offsetBytes: at(name), rowCount: storage.rowCount };
  return { kind: 'sparse', idsOffsetBytes: at(idsOf(name)), valuesOffsetBytes: at(valuesOf(name)) };
}
