/** Summary of the files of an ElasticDL checkpoint, each by itself and together. Pure. */

import type {
  Dtype,
  DtypeNumbering,
  Form,
  MergedModel,
  NamedLayout,
  Part,
  TensorPlace,
} from '@holdfast/elasticdl';

export interface InspectedFile extends NamedLayout {
  readonly sizeBytes: number;
}

export interface ShardSummary {
  readonly name: string;
  readonly sizeBytes: number;
  readonly form: Form;
  /** `null`: unknown. */
  readonly numbering: DtypeNumbering | null;
  readonly version: number;
  readonly variableCount: number;
  /** Rows of all its tables. */
  readonly rowCount: number;
}

export function summarizeShard({ name, sizeBytes, layout }: InspectedFile): ShardSummary {
  return {
    name,
    sizeBytes,
    form: layout.form,
    numbering: layout.numbering,
    version: layout.version,
    variableCount: layout.dense.length,
    rowCount: sum(layout.tables.map(({ rowCount }) => rowCount)),
  };
}

export interface TableSummary {
  readonly name: string;
  readonly dtype: Dtype;
  readonly dim: number;
  readonly initializer: string;
  readonly rowCount: number;
  /** One for each file, in their order. */
  readonly rowCounts: readonly number[];
  /** Bytes of the values. The ids are not included. */
  readonly sizeBytes: number;
}

export interface ModelSummary {
  readonly version: number;
  /** By name. In their original form, since there may be millions of them. */
  readonly variables: readonly Part<TensorPlace>[];
  /** By name. */
  readonly tables: readonly TableSummary[];
}

export function summarizeModel(model: MergedModel, fileCount: number): ModelSummary {
  const infos = new Map(model.infos.map((info) => [info.name, info]));
  const variables = [...model.dense.values()].sort((a, b) => byName(a.place, b.place));
  const tables = model.tables.map(({ name, dtype, dim, parts }) => {
    const rowCounts = new Array<number>(fileCount).fill(0);
    for (const { file, place } of parts) rowCounts[file] = place.rowCount;
    return {
      name,
      dtype,
      dim,
      initializer: infos.get(name)?.initializer ?? '',
      rowCount: sum(rowCounts),
      rowCounts,
      sizeBytes: sum(parts.map(({ place }) => place.values.lengthBytes)),
    };
  });
  return { version: model.version, variables, tables: tables.sort(byName) };
}

export function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}

// By code units, so that the order is the same everywhere.
function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
