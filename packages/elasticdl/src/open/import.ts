/**
 * Imports ElasticDL's checkpoints into a run: the same files, byte for byte, under the same
 * version.
 */

import {
  type CheckpointManager,
  type CommitMeta,
  callback,
  checkSome,
  isCheckpointError,
  jsonReady,
  optional,
  plainObject,
  type Rules,
  rule,
  type SaveResult,
  type WaitOptions,
} from '@holdfast/core/contract';
import type { CheckOptions } from '../reading-options.ts';
import { CHECK } from '../reading-options.ts';
import { aManager, SIGNAL } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { checkShards } from './check.ts';
import { openIfValid } from './latest.ts';
import { parseShardFile, shardFile } from './names.ts';
import { type FoundVersion, findVersions, openFound, type Place, twice } from './place.ts';
import { sourceStream } from './source-stream.ts';

export interface ImportOptions
  extends Omit<CheckOptions, 'onSuspicion'>,
    CommitMeta,
    Pick<WaitOptions, 'onProgress'> {
  /**
   * Default: the version in the name of the directory or in ElasticDL's catalog. If neither has
   * one, the version in the files.
   */
  readonly version?: bigint | undefined;
}

export interface ImportResult extends SaveResult {
  /** The version in the files. */
  readonly modelVersion: number;
  /** Oddities in words. Empty if there are none. */
  readonly notes: readonly string[];
  /** Signs that a file was cut off between two fields, in words: see `findSuspicions`. */
  readonly suspicions: readonly string[];
}

/**
 * Saves the shards as one checkpoint, by one writer, under their own names; a lone file of another
 * name becomes `variables-0-of-1.ckpt`. All shards are checked first: see `checkShards` for what is
 * rejected. The committed bytes are the checked ones: if a source changes in between, the save
 * fails with `SourceChanged`. Safe to repeat: an existing version with the same content stays; with
 * other content it is `Conflict`. Other errors are those of `save`.
 */
export async function importCheckpoint(
  set: ShardSet,
  manager: CheckpointManager,
  options: ImportOptions = {},
): Promise<ImportResult> {
  aManager('manager', manager);
  checkSome(options, IMPORT);
  return saveChecked(set, await checkToImport(set, options), manager, options);
}

/** `save` checks the numbers and texts. */
const IMPORT: Rules<ImportOptions> = {
  ...SIGNAL,
  numbering: CHECK.numbering,
  onProgress: optional(callback),
  version: optional(rule((value) => typeof value === 'bigint', 'a bigint')),
  metrics: optional(plainObject),
  metadata: optional(plainObject),
};

interface Checked {
  readonly modelVersion: number;
  readonly suspicions: readonly string[];
}

/**
 * Also throws `Corrupt` for files that hold no version and would become a version other than 0:
 * nothing could show later which version they are of.
 */
async function checkToImport(set: ShardSet, options: ImportOptions): Promise<Checked> {
  const suspicions: string[] = [];
  const onSuspicion = (reason: string) => suspicions.push(reason);
  const named = { ...set, version: set.version || options.version || null };
  const { version } = await checkShards(named, { ...options, onSuspicion });
  return { modelVersion: version, suspicions };
}

async function saveChecked(
  set: ShardSet,
  { modelVersion, suspicions }: Checked,
  manager: CheckpointManager,
  options: ImportOptions,
): Promise<ImportResult> {
  const { metrics, metadata, onProgress, signal } = options;
  const version = options.version ?? set.version ?? BigInt(modelVersion);
  const files = Object.fromEntries(
    set.shards.map(({ name, index, count, source }) => {
      // A model in one file may have any name; in a run it gets the name of its single shard.
      const saved = parseShardFile(name) === null ? shardFile(index, count) : name;
      return [saved, sourceStream(name, source, signal)];
    }),
  );
  const writer = { index: 0, count: 1 };
  // While a job trains, a table that did not change is suspicious. After the job it is not.
  const onStale = 'off';
  const saved = await manager.save({
    version,
    files,
    metrics,
    metadata,
    signal,
    onProgress,
    writer,
    onStale,
  });
  const isOdd = version !== BigInt(modelVersion);
  const notes = isOdd ? [`the files of ${set.where} say version ${modelVersion}`] : [];
  return jsonReady({ ...saved, modelVersion, notes, suspicions });
}

export type ImportAllOptions = Omit<ImportOptions, 'version' | 'metrics'>;

export interface ImportAllResult {
  /** In ascending order, including versions that were imported before. */
  readonly imported: readonly ImportResult[];
  /**
   * In ascending order. The reason in words: incomplete, does not decode, or older than the run
   * still accepts.
   */
  readonly skipped: readonly (Pick<FoundVersion, 'version' | 'folder'> & { readonly reason: string })[];
}

/**
 * Imports all versions, lowest first, and skips unusable ones. Errors as `importCheckpoint`;
 * `Conflict` only if the run holds a version with other content. `InvalidArgument`: two directories
 * are of one version.
 */
export async function importAll(
  place: Place,
  manager: CheckpointManager,
  options: ImportAllOptions = {},
): Promise<ImportAllResult> {
  aManager('manager', manager);
  checkSome(options, IMPORT);
  const versions = (await findVersions(place, options)).toReversed();
  assertEachOnce(place, versions);
  const imported: ImportResult[] = [];
  const skipped: ImportAllResult['skipped'][number][] = [];
  for (const found of versions) {
    const outcome = await importFound(place, { found, versions }, manager, options);
    if (typeof outcome !== 'string') imported.push(outcome);
    else skipped.push({ version: found.version, folder: found.folder, reason: outcome });
  }
  return jsonReady({ imported, skipped });
}

function assertEachOnce(place: Place, versions: readonly FoundVersion[]): void {
  const complete = versions.filter(({ problem }) => problem === null);
  complete.forEach((found, at) => {
    const next = complete[at + 1];
    if (next?.version === found.version) throw twice(place, found, next);
  });
}

/** Resolves to the result, or to why the version is skipped. */
async function importFound(
  place: Place,
  { found, versions }: { readonly found: FoundVersion; readonly versions: readonly FoundVersion[] },
  manager: CheckpointManager,
  options: ImportAllOptions,
): Promise<ImportResult | string> {
  const check = (set: ShardSet) => checkToImport(set, options);
  const newestFirst = versions.toReversed();
  const open = () => openFound(place, found, { signal: options.signal, versions: newestFirst });
  const valid = await openIfValid(open, check);
  if ('reason' in valid) return valid.reason;
  await using set = valid.set;
  try {
    return await saveChecked(set, valid.seen, manager, options);
  } catch (error) {
    if (!isCheckpointError(error, 'Conflict')) throw error;
    await using held = await manager.get(found.version, { signal: options.signal });
    if (held) throw error;
    return error.message;
  }
}
