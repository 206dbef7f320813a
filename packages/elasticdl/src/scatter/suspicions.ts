/**
 * Finds signs that a file was cut off, or is of another checkpoint. A cut inside a field shows when
 * the field is read, but a cut between two fields leaves valid protobuf. The last fields are then
 * missing. They are noticed by what every writer writes last, or by comparison with another
 * version.
 */

import { atATime, isCheckpointError } from '@holdfast/core/contract';
import { quoted } from '../codec/read-errors.ts';
import { readShardLayout } from '../codec/read-layout.ts';
import type { DtypeNumbering } from '../layout.ts';
import type { ShardSet } from '../shard-set.ts';
import { type MergedModel, mergeLayouts, type NamedLayout } from './merge-layouts.ts';

export interface SuspicionOptions {
  readonly numbering?: DtypeNumbering | undefined;
  readonly signal?: AbortSignal | undefined;
}

const FILES_AT_ONCE = 8;
/** Keeps a message one readable line. */
const NAMED_MAX = 5;

/**
 * Reasons in words, each about one file or the whole set; empty if nothing looks wrong. If no file
 * has an info of a table, the files alone cannot show a cut. The structure of another version is
 * then read (`openOther` of the set). If there is no other version, that is a reason too, but only
 * outside a run: in a run, the bytes are those that the writers delivered.
 */
export async function findSuspicions(
  set: Pick<ShardSet, 'where' | 'writers' | 'openOther' | 'shards'>,
  files: readonly NamedLayout[],
  model: MergedModel,
  options: SuspicionOptions = {},
): Promise<readonly string[]> {
  const shardCount = set.shards[0]?.count ?? files.length;
  const found = [...suspicionsIn(files, shardCount), ...variablesInSeveral(set.where, model)];
  if (found.length > 0 || files.some(({ layout }) => layout.infos.length > 0)) return found;
  const other = await readOther(set, options);
  if (other !== null) return missingBeside(set.where, model, other);
  const isRun = set.writers !== undefined;
  const isEmpty = model.dense.size === 0;
  if (isRun || isEmpty) return [];
  const isLone = files.length === 1;
  const what = isLone ? `${files[0]?.name} is complete` : `the files of ${set.where} are complete`;
  const [it, have] = isLone ? ['it', 'it has'] : ['them', 'they have'];
  const why = `${have} no required last field, and there is no other version to compare ${it} with`;
  return [`it is not known whether ${what}: ${why}`];
}

/** Which of them ElasticDL would have loaded depends on the order of its servers. */
function variablesInSeveral(where: string, { repeatedVariables: names }: MergedModel): string[] {
  if (names.length === 0) return [];
  return [`several files of ${where} have ${namesText('variable', names)}; that of the last file counts`];
}

/** Signs within the files of a checkpoint of `shardCount` shards, and between them. Pure. */
export function suspicionsIn(files: readonly NamedLayout[], shardCount = files.length): string[] {
  const known = new Map<string, string>();
  for (const { name, layout } of files) {
    for (const info of layout.infos) if (!known.has(info.name)) known.set(info.name, name);
  }
  return files.flatMap((file) => [
    ...emptyFile(file, shardCount),
    ...tablesWithoutRows(file),
    ...rowsWithoutInfos(file, known),
    ...infosOfSiblings(file, known),
  ]);
}

function emptyFile({ name, layout }: NamedLayout, shardCount: number): string[] {
  const { version, infos, dense, tables } = layout;
  if (dense.length + tables.length > 0) return [];
  // In S6 and S7 `tablesWithoutRows` reports the missing entries.
  const isOfLists = layout.form !== 'S6' && layout.form !== 'S7';
  if (infos.length > 0)
    return shardCount === 1 && isOfLists ? [`${name} holds infos of tables and no values`] : [];
  // One server of many may hold nothing if the model has no tables.
  if (shardCount > 1 && version !== 0) return [];
  return [`${name} holds ${version === 0 ? 'nothing' : 'a version and nothing else'}`];
}

/** From S6 on every table has an entry, even without rows, and these come last. */
function tablesWithoutRows({ name, layout }: NamedLayout): string[] {
  const { form, infos, tables } = layout;
  if (form !== 'S6' && form !== 'S7') return [];
  const there = new Set(tables.map((table) => table.name));
  const missing = infos.filter((info) => !there.has(info.name)).map((info) => info.name);
  if (missing.length === 0) return [];
  return [`${name} has the info of ${tablesText(missing)}, but no entry for the rows, which comes last`];
}

/**
 * From S4 on the infos come last. A file without them is taken for S3, which was written for only
 * one day.
 */
function rowsWithoutInfos({ name, layout }: NamedLayout, known: ReadonlyMap<string, string>): string[] {
  if (layout.form !== 'S3' || layout.tables.length === 0 || known.size > 0) return [];
  const names = layout.tables.map((table) => table.name);
  return [`${name} has rows of ${tablesText(names)}, but no info of a table, which comes last`];
}

/** Every server writes the infos of all tables. */
function infosOfSiblings({ name, layout }: NamedLayout, known: ReadonlyMap<string, string>): string[] {
  const own = new Set(layout.infos.map((info) => info.name));
  const missing = [...known.keys()].filter((table) => !own.has(table));
  const [first] = missing;
  if (first === undefined) return [];
  return [`${name} lacks the info of ${tablesText(missing)}, which ${known.get(first)} has`];
}

/** `null` if there is no readable other version. */
async function readOther(
  set: Pick<ShardSet, 'openOther'>,
  options: SuspicionOptions,
): Promise<OtherModel | null> {
  const { signal } = options;
  try {
    await using other = (await set.openOther?.(signal)) ?? null;
    if (other === null) return null;
    const layouts: NamedLayout[] = [];
    await atATime(other.shards.entries(), FILES_AT_ONCE, async ([at, { name, source }]) => {
      layouts[at] = { name, layout: await readShardLayout(source, { ...options, name }) };
    });
    return { where: other.where, model: mergeLayouts(layouts) };
  } catch (error) {
    const isOfNoUse =
      isCheckpointError(error, 'Corrupt') ||
      isCheckpointError(error, 'NotFound') ||
      isCheckpointError(error, 'InvalidArgument');
    if (isOfNoUse) return null;
    throw error;
  }
}

interface OtherModel {
  readonly where: string;
  readonly model: MergedModel;
}

/** The variables and tables of a model do not change during training. */
function missingBeside(where: string, model: MergedModel, other: OtherModel): string[] {
  const variables = [...other.model.dense.keys()].filter((name) => !model.dense.has(name));
  const own = new Set(model.infos.map(({ name }) => name));
  const tables = other.model.infos.map(({ name }) => name).filter((name) => !own.has(name));
  const missing = [
    ...(variables.length > 0 ? [namesText('variable', variables)] : []),
    ...(tables.length > 0 ? [tablesText(tables)] : []),
  ];
  return missing.length === 0 ? [] : [`${where} lacks ${missing.join(' and ')}, which ${other.where} has`];
}

const tablesText = (names: readonly string[]) => namesText('table', names);

function namesText(noun: string, names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map(quoted).join(', ');
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : '';
  return `${noun}${names.length > 1 ? 's' : ''} ${shown}${more}`;
}
