/**
 * Merges the structures of all shards into one model, as ElasticDL would. Rejects contradictions
 * that ElasticDL accepted.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { itemBytes } from '../dtype.ts';
import type { Form, ShardLayout, TablePlace, TensorPlace } from '../layout.ts';
import type { Dtype, TableInfo } from '../model.ts';

/** The structure of one file, and its name in messages. */
export interface NamedLayout {
  readonly name: string;
  readonly layout: ShardLayout;
}

/** One file's part of a variable or table. */
export interface Part<Place> {
  /** Index of the file. */
  readonly file: number;
  readonly place: Place;
}

export interface MergedTable {
  readonly name: string;
  readonly dtype: Dtype;
  readonly dim: number;
  readonly rowBytes: number;
  /** In the order of the files; only files that hold rows of the table. */
  readonly parts: readonly Part<TablePlace>[];
}

export interface MergedModel {
  readonly version: number;
  /** One for each table, with its type: the first that was found, in the order of the files. */
  readonly infos: readonly TableInfo[];
  readonly dense: ReadonlyMap<string, Part<TensorPlace>>;
  /** Variables that several files have. That of the last file counts. */
  readonly repeatedVariables: readonly string[];
  /** In the order of `infos`. */
  readonly tables: readonly MergedTable[];
}

/**
 * Type of a table without rows in any file, if the form had no field for the type. ElasticDL
 * trained no other type.
 */
const DTYPE_UNTOLD: Dtype = 'float32';

/** Default of ElasticDL's embedding layer, for tables of forms without infos. */
const INITIALIZER_UNTOLD = 'uniform';

/**
 * `named`: the version according to a directory or a catalog. `Corrupt`: the files do not belong
 * together or contradict each other. Also if `named` is above 0 and the files have
 * no version. (An empty file has none.)
 */
export function mergeLayouts(files: readonly NamedLayout[], named: bigint | null = null): MergedModel {
  const version = commonVersion(files);
  if (version === 0 && named !== null && named > 0n) throw versionless(files, named);
  assertOneSchema(files);
  const { dense, repeatedVariables } = variablesOf(files);
  const parts = partsOfTables(files);
  assertNamesApart(files, dense, parts);
  const infos = mergedInfos(files, parts);
  const tables = infos.map((info): MergedTable => {
    const { name, dim, dtype } = info;
    const found = parts.get(name) ?? [];
    return { name, dim, dtype, rowBytes: dim * itemBytes(dtype), parts: found };
  });
  return { version, infos, dense, repeatedVariables, tables };
}

/**
 * Each server holds variables of its own, so a variable in two files is unusual. The one in the
 * last file counts, and its name is reported.
 */
function variablesOf(files: readonly NamedLayout[]): Pick<MergedModel, 'dense' | 'repeatedVariables'> {
  const dense = new Map<string, Part<TensorPlace>>();
  const repeated = new Set<string>();
  for (const [file, { name: fileName, layout }] of files.entries()) {
    for (const place of layout.dense) {
      const { name } = place;
      const earlier = dense.get(name);
      dense.set(name, { file, place });
      if (earlier === undefined || earlier.file === file) continue;
      repeated.add(name);
      const [there, here] = [tensorText(earlier.place), tensorText(place)];
      if (there === here) continue;
      throw new CheckpointError(
        'Corrupt',
        `${fileName}: variable "${name}" at byte ${place.content.offsetBytes} is ${here}, and ${there} in ${files[earlier.file]?.name}`,
      );
    }
  }
  return { dense, repeatedVariables: [...repeated] };
}

function tensorText({ dtype, shape }: TensorPlace): string {
  return `${dtype} [${shape.join(', ')}]`;
}

function commonVersion(files: readonly NamedLayout[]): number {
  const [first] = files;
  const version = first?.layout.version ?? 0;
  const other = files.find(({ layout }) => layout.version !== version);
  if (other === undefined) return version;
  throw new CheckpointError(
    'Corrupt',
    `versions in model shards are not consistent: ${first?.name} has ${version}, ${other.name} has ${other.layout.version}`,
  );
}

function versionless(files: readonly NamedLayout[], named: bigint): CheckpointError {
  const empty = files.find(
    ({ layout }) => layout.dense.length + layout.tables.length + layout.infos.length === 0,
  );
  const name = (empty ?? files[0])?.name ?? '';
  const found = empty === undefined ? 'has no version' : 'is empty, without even a version';
  const context = { name, expected: `version ${named}`, found };
  return new CheckpointError('Corrupt', `${name} ${found}, but should be version ${named}`, { context });
}

/** Schemas of ElasticDL's versions. All files of a checkpoint were written with the same one. */
type Schema = 'map' | 'branch' | 'list' | 'list with TensorFlow types' | 'S6' | 'S7';

const SCHEMAS: Readonly<Record<Form, readonly Schema[]>> = {
  S0: ['map'],
  S1: ['map'],
  S2: ['map'],
  S2a: ['branch'],
  S3: ['list'],
  S4: ['list'],
  S5: ['list with TensorFlow types'],
  S6: ['S6'],
  S7: ['S7'],
};

/**
 * `form` is the first form that can express what the file contains. A file with little content may
 * have been written in several other forms as well.
 */
function schemasOf({ form, numbering, infos, dense, tables }: ShardLayout): readonly Schema[] | 'any' {
  const isBare = dense.length === 0 && tables.length === 0;
  if (isBare && infos.length === 0) return 'any';
  if (isBare && form !== 'S7') return ['list', 'list with TensorFlow types', 'S6'];
  if (numbering === null && (form === 'S3' || form === 'S4')) return ['list', 'list with TensorFlow types'];
  return SCHEMAS[form];
}

function assertOneSchema(files: readonly NamedLayout[]): void {
  let left: readonly Schema[] | null = null;
  let first: NamedLayout | undefined;
  for (const file of files) {
    const schemas = schemasOf(file.layout);
    if (schemas === 'any') continue;
    const common: readonly Schema[] = left?.filter((schema) => schemas.includes(schema)) ?? schemas;
    if (common.length === 0) {
      const found = `${first?.name} is of form ${first?.layout.form}, ${file.name} of ${file.layout.form}`;
      throw new CheckpointError('Corrupt', `two schemas in one directory: ${found}`);
    }
    if (left === null || common.length < left.length) first = file;
    left = common;
  }
}

function partsOfTables(files: readonly NamedLayout[]): Map<string, Part<TablePlace>[]> {
  const found = new Map<string, Part<TablePlace>[]>();
  for (const [file, { name: fileName, layout }] of files.entries()) {
    for (const place of layout.tables) {
      const parts = found.get(place.name) ?? [];
      found.set(place.name, parts);
      // A table without rows may have any type: the writer's library chose that of an empty array.
      if (place.rowCount === 0) continue;
      const [first] = parts;
      if (first !== undefined && (first.place.dtype !== place.dtype || first.place.dim !== place.dim)) {
        throw new CheckpointError(
          'Corrupt',
          `${fileName}: table "${place.name}" at byte ${place.values.offsetBytes} has ${rowText(place)}, and ${rowText(first.place)} in ${files[first.file]?.name}`,
        );
      }
      parts.push({ file, place });
    }
  }
  return found;
}

function rowText({ dim, dtype }: TablePlace): string {
  return `rows of ${dim} ${dtype}`;
}

function assertNamesApart(
  files: readonly NamedLayout[],
  dense: ReadonlyMap<string, Part<TensorPlace>>,
  tables: ReadonlyMap<string, readonly Part<TablePlace>[]>,
): void {
  for (const [name, { file, place }] of dense) {
    if (!tables.has(name) && !files.some(({ layout }) => layout.infos.some((info) => info.name === name)))
      continue;
    throw new CheckpointError(
      'Corrupt',
      `${files[file]?.name}: "${name}" at byte ${place.content.offsetBytes} is a variable, and in another file a table`,
    );
  }
}

interface FoundInfo {
  readonly info: TableInfo;
  /** The file that the info comes from. */
  readonly by: string;
}

function mergedInfos(
  files: readonly NamedLayout[],
  parts: ReadonlyMap<string, readonly Part<TablePlace>[]>,
): (TableInfo & { readonly dtype: Dtype })[] {
  const found = new Map<string, FoundInfo>();
  for (const { name: by, layout } of files) {
    for (const info of layout.infos) {
      const earlier = found.get(info.name);
      if (earlier === undefined) found.set(info.name, { info, by });
      else found.set(info.name, agreed(earlier, { info, by }));
    }
  }
  for (const [name, [part]] of parts) {
    if (found.has(name)) continue;
    const dim = part?.place.dim ?? 0;
    found.set(name, { info: { name, dim, initializer: INITIALIZER_UNTOLD, dtype: null }, by: '' });
  }
  return [...found.values()].map(({ info, by }) => {
    const [part] = parts.get(info.name) ?? [];
    if (part !== undefined && info.dim !== 0 && info.dim !== part.place.dim)
      throw clash(
        info.name,
        `${by} says ${info.dim}`,
        `${files[part.file]?.name} has ${rowText(part.place)}`,
      );
    const dtype = part?.place.dtype ?? info.dtype ?? DTYPE_UNTOLD;
    return { ...info, dim: part?.place.dim ?? info.dim, dtype };
  });
}

/**
 * The earlier info counts. A `dim` of 0 contradicts nothing: a parameter server writes it while it
 * does not know the dimension.
 */
function agreed(earlier: FoundInfo, later: FoundInfo): FoundInfo {
  if (later.info.dim === 0 || later.info.dim === earlier.info.dim) return earlier;
  if (earlier.info.dim === 0) return { info: { ...earlier.info, dim: later.info.dim }, by: later.by };
  throw clash(
    earlier.info.name,
    `${earlier.by} says ${earlier.info.dim}`,
    `${later.by} says ${later.info.dim}`,
  );
}

function clash(table: string, ...found: readonly string[]): CheckpointError {
  return new CheckpointError(
    'Corrupt',
    `files do not agree on the elements of a row of table "${table}": ${found.join(', ')}`,
  );
}
