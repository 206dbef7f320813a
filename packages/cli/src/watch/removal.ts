/**
 * Whether files of a checkpoint have been removed, also before the first look at it. A trainer
 * removes an old checkpoint file by file, and may be killed in the middle. The remains look
 * complete to most rules.
 *
 * A directory's time of modification is that of the last entry that was added or removed. If an
 * entry was added then, its own times show that: it was created, linked or renamed at that moment.
 * If no entry shows it, and none was written later, the last change was a removal.
 *
 * A later `ctime` alone shows nothing. It also changes when the file loses its name in another
 * directory, and when its mode, owner or time of access changes.
 */

import type { Stats } from 'node:fs';
import { lstat, stat } from 'node:fs/promises';
import { fileError } from '@holdfast/local-files';
import { type Entry, entriesIn } from './tree.ts';

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
    return await removalBelow(Buffer.from(path), isRenamed && mtimeMs < ctimeMs ? ctimeMs : 0);
  } catch (error) {
    throw fileError(error, `look at ${path}`, { path });
  }
}

/** `renamedMs`: removals before it do not count. */
async function removalBelow(directory: Buffer, renamedMs: number): Promise<string | null> {
  const entries = await entriesIn(directory);
  const times: Times[] = [];
  for (const { place, isDirectory } of entries) {
    if (isDirectory) {
      const found = await removalBelow(place, renamedMs);
      if (found !== null) return found;
    }
    times.push(await lstat(place));
  }
  // Looked at after its entries, so that a removal meanwhile is seen.
  const own = await stat(directory);
  const { mtimeMs } = own;
  const isExplained =
    entries.length === 0 ? wasBornAt(mtimeMs, own) : times.some((each) => explains(mtimeMs, each));
  if (isExplained) return null;
  // A change of owner or mode of the whole looks like a rename.
  const haveAllChanged = times.every(({ ctimeMs }) => ctimeMs > mtimeMs + SAME_MS);
  return haveAllChanged || mtimeMs >= renamedMs ? directory.toString() : null;
}

type Times = Pick<Stats, 'mtimeMs' | 'ctimeMs' | 'birthtimeMs'>;

/**
 * Whether an entry came into its directory when that changed last, at `changedMs`, or was written
 * later. A file that was copied with its old time of modification was born when it came.
 */
function explains(changedMs: number, { mtimeMs, ctimeMs, birthtimeMs }: Times): boolean {
  const sinceMs = changedMs - SAME_MS;
  if (ctimeMs < sinceMs) return false;
  return ctimeMs <= changedMs + SAME_MS || mtimeMs >= sinceMs || wasBornAt(changedMs, { birthtimeMs });
}

/** Not every file system knows when an entry was born. */
function wasBornAt(changedMs: number, { birthtimeMs }: Pick<Times, 'birthtimeMs'>): boolean {
  return birthtimeMs === 0 || birthtimeMs >= changedMs - SAME_MS;
}
