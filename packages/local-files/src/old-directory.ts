/** Examines the directory that a new one is to replace: what would be lost with it. */

import { dirname } from 'node:path';
import { CheckpointError, isRunFile, type TargetOptions, throwIfAborted } from '@holdfast/core/contract';
import { errnoOf } from './errno.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { protectionOf } from './protected-directory.ts';
import { madeDirectoryLine, noteLine } from './target-note.ts';
import { type TreeEntry, walkTree } from './tree.ts';

export interface OldDirectory {
  /** Links and special files count as files, and so do empty directories that are foreign. */
  readonly fileCount: number;
  /**
   * Files that no Holdfast target wrote, or that were changed since, and empty directories that no
   * target made.
   */
  readonly foreignCount: number;
  /** One of them; a directory with a '/' at its end. */
  readonly example?: string | undefined;
}

/** How to recognise files that Holdfast wrote. */
export interface Ownership extends Pick<TargetOptions, 'isOwn' | 'signal'> {
  /** Lines of the notes beside the directory; needed without `isOwn`. */
  readonly made: ReadonlySet<string>;
  /** The name it had before it was moved aside, for messages. */
  readonly movedFrom?: string | undefined;
}

/** Number of concurrent stats. */
const STATS_AT_A_TIME = 64;

/**
 * Counts the files of an existing directory. `path`: absolute, without links. Throws
 * `InvalidArgument` if the directory is never replaced: because of its place, or because it is,
 * contains, or lies in, a run.
 */
export async function lookAtOld(
  fileSystem: FileSystem,
  path: string,
  ownership: Ownership,
): Promise<OldDirectory> {
  const named = ownership.movedFrom ?? path;
  const protection = await protectionOf(fileSystem, path);
  if (protection !== null) throw never(named, protection);
  const found = { fileCount: 0, foreignCount: 0, example: undefined as string | undefined };
  const check = () => throwIfAborted(ownership.signal);
  let entries: TreeEntry[] = [];
  // A directory comes before its contents, so the entry behind it tells whether it is empty.
  let last: TreeEntry | undefined;
  const take = (entry: TreeEntry) => entries.push(entry) === STATS_AT_A_TIME;
  const isForeignAndEmpty = (next?: TreeEntry) =>
    last?.kind === 'directory' &&
    !next?.name.startsWith(`${last.name}/`) &&
    ownership.isOwn === undefined &&
    !ownership.made.has(madeDirectoryLine(last.name));
  const count = async () => {
    const areForeign = await Promise.all(
      entries.map((entry) => isForeign(fileSystem, path, entry, ownership)),
    );
    found.fileCount += entries.length;
    found.foreignCount += areForeign.filter(Boolean).length;
    const example = entries.find((_, index) => areForeign[index]);
    found.example ??= example && `${example.name}${example.kind === 'directory' ? '/' : ''}`;
    entries = [];
  };
  for await (const entry of walkTree(fileSystem, path, { missing: 'skip', withDirectories: true, check })) {
    const { name, kind } = entry;
    if (last && isForeignAndEmpty(entry) && take(last)) await count();
    last = entry;
    if (kind === 'directory') continue;
    if (isRunFile(`${path}/${name}`)) throw never(named, `is a run, or holds one: it has ${name}`);
    if (take(entry)) await count();
  }
  if (last && isForeignAndEmpty()) take(last);
  await count();
  return found;
}

/**
 * Throws `InvalidArgument` if the file or directory lies in a run, or would: it could be one of the
 * run's objects, or hide among them.
 */
export async function assertOutsideRuns(fileSystem: FileSystem, path: string): Promise<void> {
  const run = await runAround(path, fileSystem);
  if (run === null) return;
  throw new CheckpointError(
    'InvalidArgument',
    `${path} lies in the run ${run}: nothing else may be written there`,
    {
      context: { path, advice: ['name a place outside the run'] },
    },
  );
}

async function isForeign(
  fileSystem: FileSystem,
  path: string,
  { name, kind }: TreeEntry,
  { isOwn, made }: Ownership,
): Promise<boolean> {
  if (kind !== 'file') return true;
  const stats = await fileSystem.lstat(`${path}/${name}`).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  });
  if (stats === null) return false; // It has just gone.
  if (!stats.isFile()) return true;
  return isOwn === undefined ? !made.has(noteLine(name, stats)) : !isOwn(name);
}

/** Resolves to the root of the run that a path lies in; `null`: in none. `path`: absolute. */
export async function runAround(
  path: string,
  fileSystem: FileSystem = nodeFileSystem,
): Promise<string | null> {
  for (let above = dirname(path); dirname(above) !== above; above = dirname(above)) {
    const entries = await fileSystem.readdir(`${above}/catalog`).catch(() => []);
    if (entries.some(({ name }) => isRunFile(`${above}/catalog/${name}`))) return above;
  }
  return null;
}

export function never(path: string, why: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} ${why}: it is never replaced`, {
    context: { path, advice: ['name another place', 'or remove it by hand'] },
  });
}
