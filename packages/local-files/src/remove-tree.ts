/**
 * Removes a directory and all below it, and nothing else, even if other programs replace parts of
 * it meanwhile. Each directory is opened without following a link, and its entries are removed
 * through the open directory (`/proc/self/fd`, as openat(2) does). So a directory above that
 * becomes a link meanwhile cannot redirect a removal.
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

/** Concurrent removals in one directory. */
const AT_A_TIME = 64;

/**
 * Succeeds if the path does not exist. Without /proc a race may redirect a removal, as for any
 * other program there. `read`: for a test that changes something after reading.
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
      // One after the other: each removal keeps as many descriptors open as its tree is deep.
      for (const { name } of some.filter((entry) => entry.isDirectory()))
        await removeEntry(Buffer.concat([here, name]), read);
    }
  } finally {
    await nodeClose(descriptor);
  }
  await nodeRmdir(path);
}

/** Waits until all have ended, because their descriptor is closed afterwards. */
async function settled(removals: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(removals)) {
    if (result.status === 'rejected' && errnoOf(result.reason) !== 'ENOENT') throw result.reason;
  }
}
