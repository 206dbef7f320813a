/**
 * Whether files of a checkpoint have been removed, also before the first look at it. A trainer
 * removes an old checkpoint file by file, and may be killed in the middle. The remains look
 * complete to most rules.
 *
 * A directory's time of modification is that of the last entry that was added or removed. An entry
 * that was added has changed at that time or later itself: when it was created, linked or renamed
 * (`ctime`). After a removal the directory is younger than all its entries.
 */

import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileError } from '@holdfast/local-files';
import type { Entry } from './tree.ts';

/** A file system may take the times of a directory and of its new entry one after the other. */
const SAME_MS = 20;

/**
 * The path of a directory whose last change was a removal; `null` if no directory is like that.
 *
 * `isRenamed`: the trainer has renamed the whole. What it removed before that, such as its own
 * temporary files, does not count: the rename has changed `ctime` of the directory, and no time of
 * modification.
 */
export async function findRemoval(
  { path }: Pick<Entry, 'path'>,
  { isRenamed }: { readonly isRenamed: boolean },
): Promise<string | null> {
  try {
    const { mtimeMs, ctimeMs } = await stat(path);
    return await removalBelow(path, isRenamed && mtimeMs < ctimeMs ? ctimeMs : 0);
  } catch (error) {
    throw fileError(error, `look at ${path}`, { path });
  }
}

/** `renamedMs`: removals before it do not count. */
async function removalBelow(directory: string, renamedMs: number): Promise<string | null> {
  const entries = await readdir(directory, { withFileTypes: true });
  const changedMs: number[] = [];
  const bornMs: number[] = [];
  for (const entry of entries) {
    const place = join(directory, entry.name);
    if (entry.isDirectory()) {
      const found = await removalBelow(place, renamedMs);
      if (found !== null) return found;
    }
    const { ctimeMs, birthtimeMs } = await lstat(place);
    changedMs.push(ctimeMs);
    bornMs.push(birthtimeMs);
  }
  // Looked at after its entries, so that a removal meanwhile is seen.
  const { mtimeMs, birthtimeMs } = await stat(directory);
  if (entries.length === 0) bornMs.push(birthtimeMs);
  const haveAllChanged = changedMs.every((each) => each > mtimeMs + SAME_MS);
  // A change of owner or mode of the whole hides when its entries came. Not every file system knows
  // when they were born.
  if (haveAllChanged) return wasBornAt(mtimeMs, bornMs) ? null : directory;
  return mtimeMs > Math.max(...changedMs) + SAME_MS && mtimeMs >= renamedMs ? directory : null;
}

function wasBornAt(mtimeMs: number, bornMs: readonly number[]): boolean {
  return bornMs.some((each) => each === 0) || Math.max(...bornMs) >= mtimeMs - SAME_MS;
}
