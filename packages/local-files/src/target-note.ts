/**
 * What a target has put into its directory stands in a note beside it, `.name.holdfast-….made-0`:
 * size, time of modification and name of each file. So a later target knows which files are not of
 * anybody else: those of which that still holds. Without a note, or with one that cannot be read,
 * nothing is known to be.
 */

import { constants } from 'node:fs';
import { DirectFile } from './direct-file.ts';
import type { FileSystem } from './file-system.ts';
import type { TreeEntry } from './tree.ts';

/**
 * ElasticDL takes the number behind the last dash of whatever lies beside a version, and fails
 * where there is none; 0 it passes over.
 */
export const NOTE_ENDING = '.made-0';

/** What is compared of a file. */
export interface MadeFile {
  readonly size: bigint;
  readonly mtimeNs: bigint;
}

export function noteLine(name: TreeEntry['name'], { size, mtimeNs }: MadeFile): string {
  return `${size} ${mtimeNs} ${name}`;
}

/**
 * Not made durable: one that a loss of power takes away costs a question, and no file. Nor can such
 * a loss make it claim too much. What is left of its bytes, cut or with zeros in them, is no JSON.
 * And a line covers only a file that has this name, size and time of modification now, to the
 * nanosecond: whichever of the files, notes and removals a loss of power undoes, that is one that a
 * target has put there.
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
  } finally {
    await file.close();
  }
}

/** Empty if it cannot be read. */
export async function readNote(fileSystem: FileSystem, path: string): Promise<readonly string[]> {
  try {
    const lines: unknown = JSON.parse(await fileSystem.readText(path));
    return Array.isArray(lines) ? lines.map(String) : [];
  } catch {
    return [];
  }
}
