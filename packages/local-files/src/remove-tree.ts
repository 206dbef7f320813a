/**
 * Removes a directory with all below it, and nothing else, whatever is put in the place of what.
 * Each directory is opened without following a link, and its entries are removed through the open
 * directory (`/proc/self/fd`, as openat(2) does): a directory above that becomes a link meanwhile
 * leads nobody elsewhere.
 */

import { close, constants, type Dirent, open, readdir, rm, rmdir, unlink } from 'node:fs';
import { promisify } from 'node:util';
import { errnoOf } from './errno.ts';

const nodeOpen = promisify(open);
const nodeClose = promisify(close);
const nodeReaddir = promisify(readdir);
const readEntries = (path: Buffer): Promise<Dirent<Buffer>[]> =>
  nodeReaddir(path, { withFileTypes: true, encoding: 'buffer' });
const nodeRmdir = promisify(rmdir);
const nodeUnlink = promisify(unlink);
const nodeRm = promisify(rm);

/** Removals of one directory that are under way at the same time. */
const AT_A_TIME = 64;

/**
 * Succeeds if there is nothing. Where there is no /proc a race may lead elsewhere, as it may for
 * every other program there. `read`: for a test, which changes something after it.
 */
export async function removeTree(path: string, read = readEntries): Promise<void> {
  if (process.platform !== 'linux') return nodeRm(path, { recursive: true, force: true });
  try {
    await removeEntry(Buffer.from(path), read);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

async function removeEntry(path: Buffer, read: typeof readEntries): Promise<void> {
  try {
    await nodeUnlink(path);
  } catch (error) {
    if (errnoOf(error) !== 'EISDIR') throw error;
    await removeDirectory(path, read);
  }
}

async function removeDirectory(path: Buffer, read: typeof readEntries): Promise<void> {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const descriptor = await nodeOpen(path, flags);
  try {
    const here = Buffer.from(`/proc/self/fd/${descriptor}/`);
    const entries = await read(here);
    for (let start = 0; start < entries.length; start += AT_A_TIME) {
      const some = entries.slice(start, start + AT_A_TIME);
      const files = some.filter((entry) => !entry.isDirectory());
      await settled(files.map(({ name }) => removeEntry(Buffer.concat([here, name]), read)));
      // One after the other: each keeps as many descriptors as it is deep.
      for (const { name } of some.filter((entry) => entry.isDirectory()))
        await removeEntry(Buffer.concat([here, name]), read);
    }
  } finally {
    await nodeClose(descriptor);
  }
  await nodeRmdir(path);
}

/** Not before all have ended: their descriptor is closed then. */
async function settled(removals: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(removals)) {
    if (result.status === 'rejected' && errnoOf(result.reason) !== 'ENOENT') throw result.reason;
  }
}
