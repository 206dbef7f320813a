/**
 * The hidden names beside a target:
 * - `.name.holdfast-…` while it is written
 * - `….old` for the directory that it replaces
 * - `….made-0` for its note
 * - `….gone-0` for a directory that was examined and is being removed
 * - `….left-0` for a directory with files that Holdfast may not remove
 *
 * A killed process leaves them, and the next target of the same name removes them.
 */

import { createHash } from 'node:crypto';
import { basename, dirname, join, resolve } from 'node:path';
import type { TargetOptions } from '@holdfast/core/contract';
import { errnoOf, fileError } from './errno.ts';
import type { FileSystem } from './file-system.ts';
import { type OwnedEntry, ownedEntries, ownedName } from './left-behind.ts';
import { lookAtOld } from './old-directory.ts';
import type { Processes } from './processes.ts';
import { NOTE_ENDING, readNote } from './target-note.ts';

export const ASIDE_ENDING = '.old';
/** Any process may remove it at any time. */
const GONE_ENDING = '.gone-0';
/** No process removes it. */
const LEFT_ENDING = '.left-0';

/**
 * Siblings repeat this many bytes of the target's name, so that they stay below the 255 of a file
 * name.
 */
const NAME_BYTES_MAX = 128;
/** Digest that stands for the rest of a longer name, because other names may begin like it. */
const DIGEST_DIGITS = 16;
/** More consecutive links than the kernel follows. */
const LINKS_MAX = 40;

export interface SiblingParts {
  readonly fileSystem: FileSystem;
  readonly processes: Processes;
}

/** Options to check an old directory before its removal, and to report one that stays. */
export type Settling = Pick<TargetOptions, 'isOwn' | 'onLeft' | 'replace'>;

export async function siblingOf(path: string, processes: Processes): Promise<string> {
  return join(dirname(path), await ownedName(prefixOf(path), processes));
}

function prefixOf(path: string): string {
  const name = Buffer.from(basename(path));
  if (name.byteLength <= NAME_BYTES_MAX) return `.${basename(path)}.holdfast-`;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, DIGEST_DIGITS);
  const start = name
    .subarray(0, NAME_BYTES_MAX - DIGEST_DIGITS - 1)
    .toString('utf8')
    .replace(/\uFFFD$/, '');
  return `.${start}-${digest}.holdfast-`;
}

/** Resolves a path through its links, even if nothing is there yet. */
export async function leadsTo(fileSystem: FileSystem, path: string): Promise<string> {
  let at = path;
  for (let count = 0; count < LINKS_MAX; count++) {
    const target = await fileSystem.readlink(at).catch(() => null);
    if (target === null) break;
    at = resolve(dirname(at), target);
  }
  return resolve(await realDirectory(fileSystem, dirname(at)), basename(at));
}

/** Resolves links, also where some directories below a link do not exist yet. */
export async function realDirectory(fileSystem: FileSystem, path: string): Promise<string> {
  const real = await fileSystem.realpath(path).catch(() => null);
  if (real !== null || dirname(path) === path) return real ?? path;
  return resolve(await realDirectory(fileSystem, dirname(path)), basename(path));
}

/**
 * Cleans up beside a target after processes that are certainly gone. Removes what they left, and
 * puts back a directory that they moved aside and did not replace. What cannot be examined or
 * removed only takes room, and stays. `onLeft` reports an old directory that stays.
 */
export async function clearSiblings(
  path: string,
  parts: SiblingParts,
  settling: Settling = {},
): Promise<void> {
  const { fileSystem } = parts;
  for (const { name, ending, isAbandoned } of await siblingsOf(path, parts)) {
    const sibling = join(dirname(path), name);
    if (ending === LEFT_ENDING) tellForeign(sibling, settling);
    else if (ending === GONE_ENDING) await removeGone(fileSystem, sibling, settling);
    else if (isAbandoned && ending === '') await fileSystem.removeAll(sibling).catch(() => undefined);
    else if (isAbandoned && ending === ASIDE_ENDING) {
      const isMissing = await isNowhere(fileSystem, path);
      if (isMissing) await fileSystem.rename(sibling, path).catch(() => undefined);
      // The agreement given before the crash is unknown: remove only what notes list.
      else await settleAside(path, sibling, parts, { ...settling, replace: true });
    }
  }
}

function isNowhere(fileSystem: FileSystem, path: string): Promise<boolean> {
  return fileSystem.lstat(path).then(
    () => false,
    (error: unknown) => errnoOf(error) === 'ENOENT',
  );
}

/**
 * Removes an old directory that was replaced, if a second check finds only files that may be
 * removed. Files that were added meanwhile stay, and `onLeft` reports where. Never throws: the new
 * directory is in place.
 */
export async function settleAside(
  path: string,
  aside: string,
  parts: SiblingParts,
  settling: Settling,
): Promise<void> {
  const { fileSystem } = parts;
  const base = aside.slice(0, -ASIDE_ENDING.length);
  // Found before the directory is removed: another one may get its inode then.
  const notes = await notesAbout(aside, path, parts);
  try {
    const { isOwn, replace } = settling;
    const made = isOwn ? new Set<string>() : await linesOf(notes, parts);
    const { foreignCount } = await lookAtOld(fileSystem, aside, { isOwn, made });
    if (foreignCount === 0 || replace === 'everything') {
      await fileSystem.rename(aside, `${base}${GONE_ENDING}`);
      await removeGone(fileSystem, `${base}${GONE_ENDING}`, settling);
      return await removeNotes(fileSystem, notes);
    }
  } catch (error) {
    if (await isNowhere(fileSystem, aside)) return;
    tell(aside, fileError(error, `remove ${aside}`, { path: aside }).message, settling);
    return;
  }
  const left = `${base}${LEFT_ENDING}`;
  const isMoved = await fileSystem.rename(aside, left).then(
    () => true,
    () => false,
  );
  if (isMoved) await removeNotes(fileSystem, notes);
  tellForeign(isMoved ? left : aside, settling);
}

async function removeNotes(fileSystem: FileSystem, notes: readonly string[]): Promise<void> {
  for (const note of notes) await fileSystem.unlink(note).catch(() => undefined);
}

async function removeGone(fileSystem: FileSystem, path: string, settling: Settling): Promise<void> {
  await fileSystem.removeAll(path).catch((error: unknown) => {
    const { message } = fileError(error, `remove ${path}`, { path });
    tell(path, `${message}; the next restore to the same place tries again`, settling);
  });
}

function tellForeign(path: string, settling: Settling): void {
  tell(path, 'it contains files that Holdfast did not put there', settling);
}

function tell(path: string, reason: string, { onLeft }: Settling): void {
  onLeft?.({ path, reason });
}

/**
 * What notes say about `directory`, which is the target at `path` or was moved aside from it. Notes
 * of other directories do not count: one that is about to replace this one may have a file of the
 * same name, size and time.
 */
export async function readNotes(
  directory: string,
  path: string,
  parts: SiblingParts,
): Promise<ReadonlySet<string>> {
  return linesOf(await notesAbout(directory, path, parts), parts);
}

async function linesOf(notes: readonly string[], { fileSystem }: SiblingParts): Promise<ReadonlySet<string>> {
  const lines = new Set<string>();
  for (const note of notes) for (const line of (await readNote(fileSystem, note)) ?? []) lines.add(line);
  return lines;
}

/** The notes about `directory`, which is the target at `path` or was moved aside from it. */
async function notesAbout(directory: string, path: string, parts: SiblingParts): Promise<readonly string[]> {
  const inode = await inodeOf(parts.fileSystem, directory);
  const notes = await describedBy(path, parts);
  return notes.filter((note) => note.inode !== null && note.inode === inode).map(({ note }) => note);
}

/**
 * Removes notes whose directory is neither the target nor beside it: another program has removed
 * it. Renames by other processes may happen meanwhile. A directory is renamed from beside the
 * target to its name, and from there aside, so two looks at both find it.
 */
export async function removeNotesOfNothing(path: string, parts: SiblingParts): Promise<void> {
  const notes = await describedBy(path, parts);
  const there = new Set<bigint | null | 'unknown'>();
  for (let look = 0; look < 2; look++) {
    for (const { name } of await siblingsOf(path, parts))
      there.add(await inodeOf(parts.fileSystem, join(dirname(path), name)));
    there.add(await inodeOf(parts.fileSystem, path));
  }
  // One of them could not be looked at, so it may be the one that a note describes.
  if (there.has('unknown')) return;
  const orphans: string[] = [];
  for (const { note, inode } of notes) {
    const isOrphan = inode === null ? await isStagingGone(note, parts) : !there.has(inode);
    if (isOrphan) orphans.push(note);
  }
  await removeNotes(parts.fileSystem, orphans);
}

/** A note that cannot be read describes nothing, unless its target is still being written. */
function isStagingGone(note: string, { fileSystem }: SiblingParts): Promise<boolean> {
  return isNowhere(fileSystem, note.slice(0, -NOTE_ENDING.length));
}

/**
 * `inode`: of the directory that the note describes; `null` if the note does not say it. Notes that
 * cannot be read this time are left out.
 */
async function describedBy(
  path: string,
  parts: SiblingParts,
): Promise<readonly { readonly note: string; readonly inode: bigint | null }[]> {
  const found: { note: string; inode: bigint | null }[] = [];
  for (const note of await notesOf(path, parts)) {
    const lines = await readNote(parts.fileSystem, note);
    if (lines === null) continue;
    const [first = ''] = lines;
    const digits = /^directory (\d+)$/.exec(first)?.[1];
    found.push({ note, inode: digits === undefined ? null : BigInt(digits) });
  }
  return found;
}

/** `null`: there is nothing. `unknown`: the system did not tell. */
async function inodeOf(fileSystem: FileSystem, path: string): Promise<bigint | null | 'unknown'> {
  try {
    return (await fileSystem.lstat(path)).ino;
  } catch (error) {
    return errnoOf(error) === 'ENOENT' ? null : 'unknown';
  }
}

async function notesOf(path: string, parts: SiblingParts): Promise<string[]> {
  const siblings = await siblingsOf(path, parts);
  return siblings.filter(({ ending }) => ending === NOTE_ENDING).map(({ name }) => join(dirname(path), name));
}

async function siblingsOf(path: string, parts: SiblingParts): Promise<OwnedEntry[]> {
  return ownedEntries(dirname(path), prefixOf(path), parts).catch(() => []);
}
