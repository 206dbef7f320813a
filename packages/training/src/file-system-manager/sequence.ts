import type { Dirent } from 'node:fs';
import { sep } from 'node:path';
import { errnoOf, type FileSystem, fileError } from '@holdfast/local-files';

export interface SequenceEntry {
  readonly version: bigint;
  readonly path: string;
}

/**
 * The directories whose names are whole numbers, highest first. As in torchelastic, names such as
 * `-1` and `007` count too. All other entries are ignored. Empty if the directory `root` does not
 * exist.
 */
export async function readSequence(root: string, fileSystem: FileSystem): Promise<SequenceEntry[]> {
  const found = new Map<bigint, SequenceEntry>();
  for (const entry of await readEntries(root, fileSystem)) {
    const name = entry.name.toString('latin1');
    if (!/^-?\d+$/.test(name)) continue;
    const version = BigInt(name);
    const path = `${root}${sep}${name}`;
    if (!(await isDirectory(entry, path, fileSystem))) continue;
    // If both `7` and `007` exist, use `7`, the form that Holdfast writes.
    if (!found.has(version) || name === version.toString()) found.set(version, { version, path });
  }
  return [...found.values()].toSorted((a, b) => (a.version < b.version ? 1 : -1));
}

/** One above the highest, or 0 for the first. */
export function nextVersion([highest]: readonly SequenceEntry[]): bigint {
  return highest === undefined || highest.version < 0n ? 0n : highest.version + 1n;
}

async function readEntries(root: string, fileSystem: FileSystem): Promise<Dirent<Buffer>[]> {
  try {
    return await fileSystem.readdir(root);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw fileError(error, `list ${root}`, { path: root });
  }
}

async function isDirectory(entry: Dirent<Buffer>, path: string, fileSystem: FileSystem): Promise<boolean> {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  // a dangling link is not a checkpoint
  const stats = await fileSystem.stat(path).catch(() => null);
  return stats?.isDirectory() ?? false;
}
