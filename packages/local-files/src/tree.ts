/** The files below a directory, in the order that object stores list keys in. */

import { isUtf8 } from 'node:buffer';
import type { Dirent } from 'node:fs';
import { compareUtf8 } from '@holdfast/core/contract';
import type { Check } from './direct-file.ts';
import { errnoOf } from './errno.ts';
import type { FileSystem } from './file-system.ts';

export interface TreeEntry {
  /** Relative to the root of the walk, segments joined by '/'. */
  readonly name: string;
  /**
   * `unnameable`: the name is not UTF-8, and `name` only resembles it. `special`: socket, pipe or
   * device.
   */
  readonly kind: 'file' | 'link' | 'special' | 'unnameable' | 'directory';
}

export interface WalkOptions {
  /** Only names that start with it. What lies elsewhere is not even read. */
  prefix?: string | undefined;
  /** Only names after it, by UTF-8 bytes. Directories wholly before it are not read. */
  startAfter?: string | undefined;
  /** Entries of the root itself that are passed over, with all below. */
  isHidden?: ((name: string) => boolean) | undefined;
  /**
   * Told each name, of a directory too, without a '/' at its end: it is passed over, with all
   * below.
   */
  isExcluded?: ((name: string) => boolean) | undefined;
  /** True: directories are entries too, each before all that is in it. Default: they are not. */
  withDirectories?: boolean | undefined;
  /** A directory that is not there, or vanishes: `skip` counts it as empty. */
  missing: 'skip' | 'throw';
  check?: Check | undefined;
}

interface Item {
  /**
   * Of a directory with a '/' at the end: so sorted, all below it falls in the right place ("a-b" <
   * "a/b" < "a0").
   */
  readonly sortName: string;
  readonly kind: TreeEntry['kind'];
}

interface Level {
  readonly items: readonly Item[];
  next: number;
}

/**
 * Ascending by the UTF-8 bytes of the whole name. A directory is read when the walk gets there, in
 * one go; a link is not followed. Errors are those of the system calls.
 */
export async function* walkTree(
  fileSystem: FileSystem,
  root: string,
  options: WalkOptions,
): AsyncGenerator<TreeEntry, void, void> {
  const { prefix = '' } = options;
  const base = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  if (!canBeDirectory(base) || (base !== '' && options.isHidden?.(base.slice(0, base.indexOf('/'))))) return;
  const levels = [await readLevel(fileSystem, root, base, options)];
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    const item = level.items[level.next++];
    if (item === undefined) levels.pop();
    else if (item.kind === 'directory') {
      if (options.withDirectories) yield { name: item.sortName.slice(0, -1), kind: item.kind };
      levels.push(await readLevel(fileSystem, root, item.sortName, options));
    } else yield { name: item.sortName, kind: item.kind };
  }
}

/** A prefix with "..", an empty segment or NUL is that of no name. */
function canBeDirectory(base: string): boolean {
  if (base === '') return true;
  const segments = base.slice(0, -1).split('/');
  return (
    !base.includes('\0') && !segments.some((segment) => segment === '' || segment === '.' || segment === '..')
  );
}

async function readLevel(
  fileSystem: FileSystem,
  root: string,
  base: string,
  options: WalkOptions,
): Promise<Level> {
  options.check?.();
  const entries = await readEntries(
    fileSystem,
    base === '' ? root : `${root}/${base.slice(0, -1)}`,
    options.missing,
  );
  const items = entries
    .map((entry) => itemOf(entry, base))
    .filter(({ sortName, kind }) => {
      const isDirectory = kind === 'directory';
      const name = isDirectory ? sortName.slice(0, -1) : sortName;
      if ((base === '' && options.isHidden?.(name)) || options.isExcluded?.(name)) return false;
      return (
        hasPrefix(sortName, isDirectory, options.prefix ?? '') &&
        isAfter(sortName, isDirectory, options.startAfter)
      );
    })
    .sort((a, b) => compareUtf8(a.sortName, b.sortName));
  return { items, next: 0 };
}

function hasPrefix(sortName: string, isDirectory: boolean, prefix: string): boolean {
  return sortName.startsWith(prefix) || (isDirectory && prefix.startsWith(sortName));
}

function isAfter(sortName: string, isDirectory: boolean, startAfter: string | undefined): boolean {
  if (startAfter === undefined || compareUtf8(sortName, startAfter) > 0) return true;
  return isDirectory && startAfter.startsWith(sortName);
}

async function readEntries(
  fileSystem: FileSystem,
  path: string,
  missing: 'skip' | 'throw',
): Promise<Dirent<Buffer>[]> {
  try {
    return await fileSystem.readdir(path);
  } catch (error) {
    const isMissing = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '');
    if (isMissing && missing === 'skip') return [];
    throw error;
  }
}

function itemOf(entry: Dirent<Buffer>, base: string): Item {
  const name = base + entry.name.toString('utf8');
  if (!isUtf8(entry.name)) return { sortName: name, kind: 'unnameable' };
  if (entry.isDirectory()) return { sortName: `${name}/`, kind: 'directory' };
  if (entry.isFile()) return { sortName: name, kind: 'file' };
  return { sortName: name, kind: entry.isSymbolicLink() ? 'link' : 'special' };
}
