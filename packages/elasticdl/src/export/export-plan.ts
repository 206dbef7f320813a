/**
 * Plans the exported file: its content, the positions, and the description in its header and in the
 * JSON next to it.
 */

import { layOutSafetensors, type SafetensorsLayout, type TensorToLayOut } from '@holdfast/core';
import type { WriterState } from '@holdfast/core/contract';
import { quoted } from '../codec/read-errors.ts';
import type { Dtype } from '../model.ts';
import type { ShardOutline, TableOutline } from '../sink.ts';
import { type SafetensorsDtype, tensorToLayOut } from './exported-tensor.ts';
import { storeTables, type TableOptions, type TableStorage } from './table-storage.ts';

/** Format name in the JSON. Adding a field that readers may ignore does not change its number. */
const FORM = 'holdfast-elasticdl-export-1';

export interface ExportedTable {
  readonly name: string;
  readonly dim: number;
  readonly dtype: Dtype;
  /** `null` if the checkpoint does not say. */
  readonly initializer: string | null;
  readonly stored: 'sparse' | 'dense';
  /** Rows of the checkpoint. The tensor of a dense table has as many rows as were requested. */
  readonly rowCount: number;
}

/** The state that a writer of the checkpoint reported for its bytes. */
export interface ExportedWriter {
  readonly writer: number;
  readonly consistency: 'paused' | 'polluted';
  /** Decimal: a version may be higher than the numbers that JSON holds exactly. */
  readonly stateVersion: string;
  /** ISO 8601, by the writer's own clock. */
  readonly takenAt: string;
}

/**
 * The JSON next to the file. In the file's own metadata, `version`, `tables` and `writers` are
 * strings that contain JSON.
 */
export interface ExportDocument {
  readonly form: string;
  readonly version: number;
  readonly tables: readonly ExportedTable[];
  /** Writers that reported a state. Missing if there are none. */
  readonly writers?: readonly ExportedWriter[];
}

/** Position of a table; offsets are those in the file. */
export type TablePlan =
  | { readonly kind: 'sparse'; readonly idsOffsetBytes: number; readonly valuesOffsetBytes: number }
  | { readonly kind: 'dense'; readonly offsetBytes: number; readonly rowCount: number };

export interface ExportPlan {
  readonly layout: SafetensorsLayout<SafetensorsDtype>;
  readonly document: ExportDocument;
  /** Offsets of variables in the file, by name. */
  readonly dense: ReadonlyMap<string, number>;
  /** Without tables that are left out. */
  readonly tables: ReadonlyMap<string, TablePlan>;
  /** Names of tables that are left out. */
  readonly dropped: readonly string[];
}

/** `InvalidArgument`: as `storeTables` and `layOutSafetensors`. */
export function planExport(
  { version, infos, dense, tables }: ShardOutline,
  options: TableOptions<number>,
  states: readonly WriterState[] = [],
): ExportPlan {
  const { kept, dropped } = storeTables(tables, options);
  const stored = tables.flatMap((table) => {
    const storage = kept.get(table.name);
    return storage === undefined ? [] : [{ table, storage }];
  });
  const initializers = new Map(infos.map(({ name, initializer }) => [name, initializer]));
  const writers = exportedWriters(states);
  const said = writers.length > 0;
  const document: ExportDocument = {
    form: FORM,
    version,
    tables: stored.map(({ table: { name, dim, dtype, rowCount }, storage: { kind } }) => {
      return { name, dim, dtype, initializer: initializers.get(name) ?? null, stored: kind, rowCount };
    }),
    ...(said && { writers }),
  };
  const layout = layOutSafetensors(
    [
      ...dense.map((variable) => tensorToLayOut({ ...variable, what: `variable ${quoted(variable.name)}` })),
      ...stored.flatMap(({ table, storage }) => tensorsOf(table, storage)),
    ],
    {
      form: FORM,
      version: String(version),
      tables: JSON.stringify(document.tables),
      ...(said && { writers: JSON.stringify(writers) }),
    },
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

function exportedWriters(states: readonly WriterState[]): ExportedWriter[] {
  return states.flatMap(({ writer, consistency, stateVersion, takenAtMs }) => {
    if (consistency === null || stateVersion === null || takenAtMs === null) return [];
    const takenAt = new Date(takenAtMs).toISOString();
    return [{ writer, consistency, stateVersion: String(stateVersion), takenAt }];
  });
}

const idsOf = (table: string) => `${table}.ids`;
const valuesOf = (table: string) => `${table}.values`;

function tensorsOf(
  { name, dtype, dim, rowCount }: TableOutline,
  storage: TableStorage<number>,
): TensorToLayOut<SafetensorsDtype>[] {
  const what = `table ${quoted(name)}`;
  if (storage.kind === 'dense')
    return [tensorToLayOut({ name, dtype, shape: [storage.rowCount, dim], what })];
  return [
    tensorToLayOut({ name: idsOf(name), dtype: 'int64', shape: [rowCount], what: `the ids of ${what}` }),
    tensorToLayOut({ name: valuesOf(name), dtype, shape: [rowCount, dim], what: `the rows of ${what}` }),
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
