/**
 * A note beside a target, `.name.holdfast-….made-0`, lists the files that the target wrote: size,
 * modification time and name of each. It also lists the directories that it made. A later target
 * uses it to recognise what belongs to Holdfast: files that still match their line, and empty
 * directories with a line. Without a readable note nothing is recognised.
 */

import { constants } from 'node:fs';
import { DirectFile } from './direct-file.ts';
import { errnoOf } from './errno.ts';
import type { FileSystem } from './file-system.ts';
import type { TreeEntry } from './tree.ts';

/**
 * ElasticDL parses the number behind the last dash of each name beside a version, and fails if
 * there is none; it skips 0.
 */
export const NOTE_ENDING = '.made-0';

/** The attributes of a file that are compared. */
export interface MadeFile {
  readonly size: bigint;
  readonly mtimeNs: bigint;
}

export function noteLine(name: TreeEntry['name'], { size, mtimeNs }: MadeFile): string {
  return `${size} ${mtimeNs} ${name}`;
}

export function madeDirectoryLine(name: TreeEntry['name']): string {
  return `made ${name}`;
}

/**
 * The first line of a note: the directory that it describes, which keeps its inode when it is
 * renamed. So a note is removed together with its directory, and never with another one.
 */
export function directoryLine(inode: bigint): string {
  return `directory ${inode}`;
}

/**
 * Its bytes are durable when this resolves, and its name with that of the target. So a job that
 * starts again after a loss of power can replace what it restored. A loss of power cannot make the
 * note claim too much. What remains of its bytes, cut or with zeros in them, is not valid JSON. A
 * line covers only a file that has this name, size and modification time now, to the nanosecond.
 * Whichever files, notes and removals a loss of power undoes, a target wrote that file.
 */
export async function writeNote(
  fileSystem: FileSystem,
  path: string,
  lines: readonly string[],
): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const file = await DirectFile.open(path, flags, { direct: false, mode: 0o600, fileSystem });
  try {
    await file.write(0, new TextEncoder().encode(JSON.stringify(lines)));
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Empty if it is gone or damaged; `null` if it could not be read this time. */
export async function readNote(fileSystem: FileSystem, path: string): Promise<readonly string[] | null> {
  try {
    const lines: unknown = JSON.parse(await fileSystem.readText(path));
    return Array.isArray(lines) ? lines.map(String) : [];
  } catch (error) {
    return error instanceof SyntaxError || errnoOf(error) === 'ENOENT' ? [] : null;
  }
}
