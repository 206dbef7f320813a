/** What lies in a watched directory at one moment. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, fileError } from '@holdfast/local-files';

const SLASH = Buffer.from('/');

/** A checkpoint of a trainer: a directory, or a single file. */
export interface Entry {
  /** Name in the watched directory. */
  readonly name: string;
  readonly path: string;
  readonly isDirectory: boolean;
  readonly version: bigint;
  /**
   * Changes when another one takes its name, when files of a directory come or go, and when its
   * first files are written again. See `changedNs`.
   */
  readonly place: string;
}

/** Size, time and inode of each file by its path below the entry; "" for a single file. */
export type Tree = ReadonlyMap<string, string>;

/**
 * Links are followed: what they lead to may still change. `null`: the entry is gone by now.
 * `Denied`, `Unavailable`: it cannot be read.
 */
export async function readTree({
  path,
  isDirectory,
}: Pick<Entry, 'path' | 'isDirectory'>): Promise<Tree | null> {
  const files = new Map<string, string>();
  try {
    if (isDirectory) await addFiles(files, Buffer.from(path), '');
    else files.set('', await stateOf(path));
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ESTALE'].includes(errnoOf(error) ?? '')) return null;
    throw fileError(error, `look at ${path}`, { path });
  }
  return files;
}

export function isSameTree(one: Tree, other: Tree): boolean {
  return one.size === other.size && [...one].every(([name, state]) => other.get(name) === state);
}

/** A name that is not UTF-8 stays in the tree, so that the save refuses it and says so. */
async function addFiles(files: Map<string, string>, path: Buffer, prefix: string): Promise<void> {
  for (const { name, place, isDirectory } of await entriesIn(path)) {
    if (isDirectory) await addFiles(files, place, `${prefix}${name}/`);
    else files.set(prefix + name, await stateOf(place));
  }
}

/**
 * Paths are bytes, because names need not be UTF-8. The `name` of such an entry only resembles it.
 */
export async function entriesIn(
  directory: Buffer,
): Promise<readonly { readonly name: string; readonly place: Buffer; readonly isDirectory: boolean }[]> {
  const entries = await readdir(directory, { withFileTypes: true, encoding: 'buffer' });
  return entries.map((entry) => ({
    name: entry.name.toString(),
    place: Buffer.concat([directory, SLASH, entry.name]),
    isDirectory: entry.isDirectory(),
  }));
}

/** A trainer that writes a checkpoint again writes all its files, so a few show it. */
const FILES_LOOKED_AT = 32;

/** When the first files of an entry, by name, were last written. 0n: there are none. */
export async function changedNs({ path, isDirectory }: Pick<Entry, 'path' | 'isDirectory'>): Promise<bigint> {
  let newest = 0n;
  let count = 0;
  const visit = async (place: string, isDirectoryHere: boolean): Promise<void> => {
    if (!isDirectoryHere) {
      const stats = await stat(place, { bigint: true }).catch(() => null);
      if (stats !== null && stats.mtimeNs > newest) newest = stats.mtimeNs;
      count += 1;
      return;
    }
    const entries = await readdir(place, { withFileTypes: true }).catch(() => []);
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1)))
      if (count < FILES_LOOKED_AT) await visit(join(place, entry.name), entry.isDirectory());
  };
  await visit(path, isDirectory);
  return newest;
}

/** What the state of a file in a tree says. */
export function factsOf(state: string): { readonly sizeBytes: bigint; readonly modifiedNs: bigint } {
  const [, sizeBytes = '', modifiedNs = ''] = state.split(' ');
  return { sizeBytes: BigInt(sizeBytes), modifiedNs: BigInt(modifiedNs) };
}

async function stateOf(path: string | Buffer): Promise<string> {
  const { ino, size, mtimeNs } = await stat(path, { bigint: true });
  return [ino, size, mtimeNs].join(' ');
}
