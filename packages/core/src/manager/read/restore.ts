/** Restores a checkpoint into a destination: choose, lease, manifest, verified ranges, publish. */

import type {
  CheckpointReference,
  RestoreDestination,
  RestoreOptions,
  RestoreResult,
} from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError, throwIfAborted } from '../../contract/errors.ts';
import type { LeftDirectory, RestoreTarget, SinkFile } from '../../contract/files.ts';
import { compareUtf8 } from '../../contract/object-key.ts';
import {
  type CatalogCheckpoint,
  type DirectoryRecord,
  type FileRecord,
  type Manifest,
  type Reference,
  toReference,
} from '../../format/index.ts';
import { refersToReceipts } from '../../plan/file-lists.ts';
import { chooserOf } from '../../plan/globs.ts';
import { chooseCheckpoint, nameStarts, nextOlder, noMatch, requireLive } from '../../plan/select.ts';
import { totalBytes } from '../../plan/stored-file.ts';
import { bufferTarget, type DownloadItem } from '../../transfer/index.ts';
import type { Catalog, Head } from '../catalog/index.ts';
import { readManifest, readNamedSlices } from '../records/index.ts';
import {
  localFiles,
  plannedCheckpoint,
  plannedEvent,
  type RunContext,
  transferOptions,
  unlessRemovedMeanwhile,
} from '../run/index.ts';
import { LeaseHolder } from './lease.ts';

/** How often a restore of the latest begins again after that checkpoint was removed meanwhile. */
const REMOVED_MAX = 3;
/** Maximum number of file names in the error if nothing matches. */
const NAMES_TOLD_MAX = 5;

export async function restore(run: RunContext, options: RestoreOptions): Promise<RestoreResult> {
  const reference = wantedReference(options.version);
  const skipped: { version: bigint; reason: string }[] = [];
  let wanted = (head: Head) => chooseCheckpoint(head.state, reference);
  for (let removedCount = 0; ; ) {
    const { checkpoint, lease } = await leaseCheckpoint(run, wanted, options.signal);
    try {
      return { ...(await restoreOne(run, checkpoint, lease, options)), skipped };
    } catch (failure) {
      const error = await unlessRemovedMeanwhile(run, checkpoint, failure, options.signal);
      const isRemoved = isCheckpointError(error, 'NotFound') && error.context['removed'] === true;
      if (isRemoved && reference === 'latest' && ++removedCount < REMOVED_MAX) continue;
      if (!isCheckpointError(error, 'Corrupt') || options.onCorrupt !== 'fallback')
        throw await withNewestGood(error, run.catalog, checkpoint);
      const damaged = checkpoint.id;
      skipped.push({ version: damaged.version, reason: error.message });
      options.onProgress?.({ type: 'skipped', version: damaged.version, reason: error.message });
      run.logger.log('warn', `version ${damaged.version} is damaged and is skipped: ${error.message}`);
      wanted = (head) => {
        const older = nextOlder(head.state, damaged);
        if (older) return older;
        throw new CheckpointError('Corrupt', `no checkpoint that verifies is left: ${error.message}`, {
          cause: error,
          context: error.context,
        });
      };
    } finally {
      await lease.release({ signal: options.signal });
    }
  }
}

/** Checks the caller's reference. */
export function wantedReference(given: CheckpointReference | 'latest' | undefined): Reference | 'latest' {
  return given === undefined || given === 'latest' ? 'latest' : toReference(given);
}

/**
 * Chooses on the newest state and takes a lease. If the checkpoint was retired meanwhile, it
 * chooses again.
 */
export async function leaseCheckpoint(
  run: RunContext,
  choose: (head: Head) => CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<{ checkpoint: CatalogCheckpoint; lease: LeaseHolder }> {
  for (;;) {
    const { answer: checkpoint } = await run.catalog.ask((head) => requireLive(choose(head)), signal);
    const lease = await LeaseHolder.take(run, checkpoint.id, signal);
    if (lease) return { checkpoint, lease };
  }
}

async function restoreOne(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  lease: LeaseHolder,
  given: RestoreOptions,
): Promise<Omit<RestoreResult, 'skipped'>> {
  const signal = given.signal ? AbortSignal.any([given.signal, lease.lost]) : lease.lost;
  const options = { ...given, signal };
  const id = checkpoint.id;
  const manifest = await readManifest(run, checkpoint, signal);
  // Choose before opening the destination: if a file is missing, no empty destination is left
  // behind.
  const chosen = await chooseFiles(run, checkpoint, manifest, options);
  const target = await openTarget(run, options);
  try {
    options.onProgress?.(
      chosen ? plannedEvent(id.version, chosen.files) : plannedCheckpoint(checkpoint, manifest),
    );
    const directories = new Map((chosen?.directories ?? []).map((each) => [each.name, each]));
    const files = chosen?.files ?? allFiles(run, manifest, { directories, signal });
    const items = itemsOf(files, (file) => target.open(sinkFile(file, options)));
    await run.transfers.download(items, transferOptions(options));
    for (const directory of childrenFirst(directories.values())) {
      throwIfAborted(signal);
      await target.makeDirectory?.(sinkDirectory(directory, options));
    }
    await target.publish();
  } catch (error) {
    await target.discard();
    throw error;
  }
  const { fileCount, sizeBytes } = chosen
    ? { fileCount: chosen.files.length, sizeBytes: totalBytes(chosen.files) }
    : checkpoint;
  return { id, version: id.version, sizeBytes, fileCount };
}

async function* itemsOf(
  files: Iterable<FileRecord> | AsyncIterable<FileRecord>,
  open: (file: FileRecord) => ReturnType<RestoreTarget['open']>,
): AsyncGenerator<DownloadItem, void, void> {
  for await (const file of files) yield { file, sink: () => open(file) };
}

/** Also collects the empty directories, by name: all of them once the last file was yielded. */
async function* allFiles(
  run: RunContext,
  manifest: Manifest,
  { directories, signal }: { directories: Map<string, DirectoryRecord>; signal: AbortSignal },
): AsyncGenerator<FileRecord, void, void> {
  for await (const { files, said, isFirst } of readNamedSlices(run, manifest, { signal })) {
    yield* files;
    if (isFirst) for (const directory of said.directories) directories.set(directory.name, directory);
  }
}

/** The files and empty directories to restore. */
interface Chosen {
  readonly files: readonly FileRecord[];
  /** Empty ones. Several writers may have the same. */
  readonly directories: readonly DirectoryRecord[];
}

/**
 * The files and empty directories that match the globs or, with buffers as destination, the files
 * by name. `undefined`: all are wanted, and too many to hold at once. `NotFound`: a glob matches
 * nothing, or a named file does not exist. Reads only the records that may hold such names.
 */
async function chooseFiles(
  run: RunContext,
  { fileCount }: CatalogCheckpoint,
  manifest: Manifest,
  { to, only, signal }: RestoreOptions & { readonly signal: AbortSignal },
): Promise<Chosen | undefined> {
  const named = typeof to === 'string' || isTarget(to) ? undefined : Object.keys(to);
  if (!named && !only && refersToReceipts(manifest)) return undefined;
  const chooser = only && chooserOf(only);
  const matches = (name: string) => chooser?.matches(name) ?? true;
  const isNamed = new Set(named);
  const starts = named ?? (only && nameStarts(only));
  const found: FileRecord[] = [];
  const directories: DirectoryRecord[] = [];
  const others: string[] = [];
  const wanted = { signal, starts, withDirectories: !named };
  for await (const { files, said, isFirst } of readNamedSlices(run, manifest, wanted)) {
    for (const file of files) {
      if (named ? isNamed.has(file.name) : matches(file.name)) found.push(file);
      else if (others.length < NAMES_TOLD_MAX) others.push(file.name);
    }
    if (isFirst && !named) directories.push(...said.directories.filter(({ name }) => matches(name)));
  }
  const chosen = named ? inOrder(found, named).filter(({ name }) => matches(name)) : found;
  const unused = chooser?.unused();
  if (!only || unused === undefined) return { files: chosen, directories };
  const isNothing = chosen.length + directories.length === 0;
  const some = [...found.map(({ name }) => name), ...others].slice(0, NAMES_TOLD_MAX);
  throw noMatch(isNothing ? only : [unused], some, fileCount);
}

/** `NotFound`: the checkpoint has no file of that name. */
function inOrder(files: readonly FileRecord[], names: readonly string[]): readonly FileRecord[] {
  const byName = new Map(files.map((file) => [file.name, file]));
  return names.map((name) => {
    const file = byName.get(name);
    if (file) return file;
    throw new CheckpointError('NotFound', `the checkpoint has no file "${name}"`, { context: { name } });
  });
}

function sinkFile(file: FileRecord, options: Pick<RestoreOptions, 'mtimes'>): SinkFile {
  const { sizeBytes, mode } = file;
  return { ...sinkDirectory(file, options), sizeBytes, mode: mode === 0 ? undefined : mode };
}

function sinkDirectory({ name, mtimeMs }: DirectoryRecord, { mtimes }: Pick<RestoreOptions, 'mtimes'>) {
  return { name, mtimeMs: mtimes && mtimeMs > 0 ? mtimeMs : undefined };
}

/** Children first: creating a directory changes the time of its parent. */
function childrenFirst(directories: Iterable<DirectoryRecord>): DirectoryRecord[] {
  return [...directories].sort((a, b) => compareUtf8(b.name, a.name));
}

export async function openTarget(
  run: RunContext,
  options: Pick<RestoreOptions, 'to' | 'replace' | 'signal' | 'onProgress'>,
): Promise<RestoreTarget> {
  const { to, replace, signal } = options;
  const onLeft = ({ path, reason }: LeftDirectory) => {
    run.logger.log('warn', `the old directory ${path} stays: ${reason}`);
    options.onProgress?.({ type: 'left', path, reason });
  };
  if (typeof to === 'string') return localFiles(run).openTarget(to, { replace, signal, onLeft });
  return isTarget(to) ? to : bufferTarget(to);
}

function isTarget(to: Exclude<RestoreDestination, string>): to is RestoreTarget {
  return (
    typeof to.publish === 'function' && typeof to.discard === 'function' && typeof to.open === 'function'
  );
}

/** Names the next older version in the error about a damaged checkpoint. */
async function withNewestGood(
  error: unknown,
  catalog: Catalog,
  checkpoint: CatalogCheckpoint,
): Promise<unknown> {
  if (!isCheckpointError(error, 'Corrupt')) return error;
  const { version } = checkpoint.id;
  const look = catalog.ask(({ state }) => nextOlder(state, checkpoint.id)?.id.version, undefined);
  const { answer: older } = await look.catch(() => ({ answer: undefined }));
  const hint = older === undefined ? 'there is no older one' : `the next older one is ${older}`;
  return new CheckpointError('Corrupt', `version ${version} is damaged: ${error.message}; ${hint}`, {
    cause: error,
    context: { ...error.context, version },
  });
}
