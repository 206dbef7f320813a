/**
 * The hidden names beside a target: `.name.holdfast-…` while it is written, `….old` for what it takes the place of, `….made-0` for its note.
 * A process that is killed leaves them, and the next target of the same name clears them away.
 */

import { basename, dirname, resolve, sep } from 'node:path';
import { errnoOf } from './errno.ts';
import type { FileSystem } from './file-system.ts';
import { type OwnedEntry, ownedEntries, ownedName } from './left-behind.ts';
import type { Processes } from './processes.ts';
import { NOTE_ENDING, readNote } from './target-note.ts';

export const ASIDE_ENDING = '.old';

/** Bytes of the target's name that its siblings repeat: with the rest they stay below the 255 of a file name. */
const NAME_BYTES_MAX = 128;
/** More links one after the other than the kernel follows. */
const LINKS_MAX = 40;

export interface SiblingParts {
  readonly fileSystem: FileSystem;
  readonly processes: Processes;
}

export async function siblingOf(path: string, processes: Processes): Promise<string> {
  return `${dirname(path)}${sep}${await ownedName(prefixOf(path), processes)}`;
}

function prefixOf(path: string): string {
  const start = Buffer.from(basename(path))
    .subarray(0, NAME_BYTES_MAX)
    .toString('utf8')
    .replace(/\uFFFD$/, '');
  return `.${start}.holdfast-`;
}

/** Where a path leads, links followed, also if there is nothing yet. */
export async function leadsTo(fileSystem: FileSystem, path: string): Promise<string> {
  let at = path;
  for (let count = 0; count < LINKS_MAX; count++) {
    const target = await fileSystem.readlink(at).catch(() => null);
    if (target === null) break;
    at = resolve(dirname(at), target);
  }
  const parent = await fileSystem.realpath(dirname(at)).catch(() => dirname(at));
  return resolve(parent, basename(at));
}

/**
 * Removes what processes that are certainly gone left beside a target, and puts back what one had moved aside and not replaced. What cannot
 * be looked at or removed takes room, and is left.
 */
export async function clearSiblings(path: string, parts: SiblingParts): Promise<void> {
  const { fileSystem } = parts;
  const siblings = await siblingsOf(path, parts);
  for (const { name, ending } of siblings.filter(({ isAbandoned }) => isAbandoned)) {
    const sibling = `${dirname(path)}${sep}${name}`;
    if (ending === '') await fileSystem.removeAll(sibling).catch(() => undefined);
    if (ending === ASIDE_ENDING && isNamedInFull(path)) await settleAside(fileSystem, sibling, path);
  }
}

/** Several targets may have the beginning of a long name in common, and it is not told whose the old directory is. */
function isNamedInFull(path: string): boolean {
  return Buffer.byteLength(basename(path)) <= NAME_BYTES_MAX;
}

async function settleAside(fileSystem: FileSystem, aside: string, path: string): Promise<void> {
  const isMissing = await fileSystem.lstat(path).then(
    () => false,
    (error: unknown) => errnoOf(error) === 'ENOENT',
  );
  if (isMissing) await fileSystem.rename(aside, path).catch(() => undefined);
  else await fileSystem.removeAll(aside).catch(() => undefined);
}

/** Lines of all notes beside a target. A crash may leave two: of the directory that is there, and of one that was to replace it. */
export async function readNotes(path: string, parts: SiblingParts): Promise<ReadonlySet<string>> {
  const lines = new Set<string>();
  for (const note of await notesOf(path, parts))
    for (const line of await readNote(parts.fileSystem, note)) lines.add(line);
  return lines;
}

/** All but the one at `kept`. */
export async function removeNotes(path: string, kept: string, parts: SiblingParts): Promise<void> {
  for (const note of await notesOf(path, parts))
    if (note !== kept) await parts.fileSystem.unlink(note).catch(() => undefined);
}

async function notesOf(path: string, parts: SiblingParts): Promise<string[]> {
  const siblings = await siblingsOf(path, parts);
  return siblings
    .filter(({ ending }) => ending === NOTE_ENDING)
    .map(({ name }) => `${dirname(path)}${sep}${name}`);
}

async function siblingsOf(path: string, parts: SiblingParts): Promise<OwnedEntry[]> {
  return ownedEntries(dirname(path), prefixOf(path), parts).catch(() => []);
}
