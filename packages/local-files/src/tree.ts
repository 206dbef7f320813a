/** Walks the files below a directory, in the order in which object stores list keys. */

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
   * `unnameable`: the name is not UTF-8, and `name` is only an approximation. `special`: socket,
   * pipe or device.
   */
  readonly kind: 'file' | 'link' | 'special' | 'unnameable' | 'directory';
}

export interface WalkOptions {
  /** Only names that start with it. Directories outside it are not read. */
  prefix?: string | undefined;
  /** Only names after it, by UTF-8 bytes. Directories wholly before it are not read. */
  startAfter?: string | undefined;
  /** Entries of the root that are skipped, with all below. */
  isHidden?: ((name: string) => boolean) | undefined;
  /**
   * Called with each name, also of a directory, without a trailing '/'. True skips it, with all
   * below.
   */
  isExcluded?: ((name: string) => boolean) | undefined;
  /** True: directories are entries too, each before its contents. Default: they are not. */
  withDirectories?: boolean | undefined;
  /** What to do if a directory is missing or vanishes: `skip` treats it as empty. */
  missing: 'skip' | 'throw';
  check?: Check | undefined;
}

interface Item {
  /**
   * A directory's name with a trailing '/', so that its contents sort correctly ("a-b" < "a/b" <
   * "a0").
   */
  readonly sortName: string;
  readonly kind: TreeEntry['kind'];
}

interface Level {
  readonly items: readonly Item[];
  next: number;
}

/**
 * In ascending order of the UTF-8 bytes of the whole name. Each directory is read in one go when
 * the walk reaches it. Links are not followed. Throws the errors of the system calls.
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

/** Names of the directories directly below `prefix`, which is empty or ends in '/'; in no order. */
export async function subdirectories(
  fileSystem: FileSystem,
  root: string,
  prefix: string,
  options: Omit<WalkOptions, 'prefix' | 'startAfter' | 'withDirectories'>,
): Promise<string[]> {
  if (!canBeDirectory(prefix) || (prefix !== '' && options.isHidden?.(prefix.slice(0, prefix.indexOf('/')))))
    return [];
  const { items } = await readLevel(fileSystem, root, prefix, options);
  return items
    .filter(({ kind }) => kind === 'directory')
    .map(({ sortName }) => sortName.slice(prefix.length, -1));
}

/** No name can have a prefix with "..", an empty segment or NUL. */
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
