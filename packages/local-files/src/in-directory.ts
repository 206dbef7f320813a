/**
 * Opens a directory and works in it without following links. `here` leads to the directory that was
 * opened, even if its path changes (openat(2), by way of /proc).
 */

import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { closeRead, type FileSystem } from './file-system.ts';

/**
 * Throws `ENOTDIR` if the path is not a directory, or if it or a segment of it is a link. Links
 * above `root` are followed; by default those above the directory. Without /proc, `here` is the
 * path itself.
 */
export async function inDirectory<T>(
  fileSystem: FileSystem,
  path: string,
  work: (here: string) => Promise<T>,
  root = dirname(path),
): Promise<T> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const expected = `${await fileSystem.realpath(root)}${path.slice(root.length)}`;
  const descriptor = await fileSystem.open(expected, flags);
  try {
    const here = `/proc/self/fd/${descriptor}`;
    const place = await fileSystem.readlink(here).catch(() => null);
    if (place === null) return await work(path);
    if (place !== expected) throw leadsElsewhere(path, place);
    return await work(here);
  } finally {
    await closeRead(fileSystem, descriptor);
  }
}

function leadsElsewhere(path: string, place: string): Error {
  const message = `ENOTDIR: a link in ${path} leads to ${place}, open`;
  return Object.assign(new Error(message), { code: 'ENOTDIR', syscall: 'open' });
}
