/**
 * Opens sockets with a name that one process serves at a time. Unless it is shared, the directory
 * of the socket belongs to this user alone.
 */

import { link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { basename, dirname } from 'node:path';
import process from 'node:process';
import { CheckpointError, systemClock, systemRandom } from '@holdfast/core';
import { errnoOf, type FileSystem, fileError, nodeFileSystem } from '@holdfast/local-files';
import { assertPrivateDirectory } from '../staging/private-directory.ts';

const RANDOM_DIGITS = 8;
/** Before the random digits: of a first name, and of a name that was moved aside. */
const [FIRST, ASIDE] = ['.', '~'];
/** The length of sun_path, see unix(7), less the final zero and what a first name has more. */
const PATH_BYTES_MAX = 107 - 1 - RANDOM_DIGITS;
/** Each try finds a socket that another agent has left, or made, since the one before. */
const TRIES_MAX = 10;
/** Between two tries to give a name back, which another agent has and will leave. */
const PAUSE_MS = 20;
const GIVE_BACK_TRIES_MAX = 100;

/** For tests: another agent may do anything just before and after it. */
export type Rename = typeof rename;

/** Removes the name, if it still leads to this process. */
export type Release = () => Promise<void>;

/**
 * `isShared`: the group of the socket may use it, with a token. `AlreadyExists`: another process
 * serves the name. `Denied`: others may enter the directory.
 */
export async function listenAt(server: Server, path: string, isShared: boolean): Promise<Release> {
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) {
    const message = `the path of the socket has more than ${PATH_BYTES_MAX} bytes: ${path}`;
    throw new CheckpointError('InvalidArgument', message, { context: { path } });
  }
  const directory = dirname(path);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, `make ${directory}`, { path: directory });
  }
  if (!isShared) await assertPrivateDirectory(directory);
  // The socket never has another mode, not even for a moment.
  const umask = process.umask(isShared ? 0o117 : 0o177);
  try {
    return await claim(server, { path, shown: path, move: rename });
  } finally {
    process.umask(umask);
  }
}

/** A directory that one agent uses at a time. */
export interface DirectoryLock {
  /** Whether the lock is still in the directory. Another program may have removed it. */
  isHeld(fileSystem: FileSystem): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * A socket in the directory is the lock: the system forgets it with the process, however that ends.
 * `AlreadyExists`: another agent uses it. `shown`: the directory, in messages.
 */
export async function lockDirectory(
  directory: string,
  move: Rename = rename,
  shown = directory,
): Promise<DirectoryLock> {
  const lock = createServer((socket) => socket.destroy()).unref();
  const handle = await open(directory);
  try {
    // By its descriptor, because the path of a socket must be short.
    const path = `/proc/self/fd/${handle.fd}/.lock`;
    const release = await claim(lock, { path, shown, move });
    const ino = await inodeOf(path);
    return {
      isHeld: async (fileSystem) => ino !== undefined && (await inodeOf(path, fileSystem)) === ino,
      release: async () => {
        await release();
        lock.close();
        await handle.close();
      },
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

interface Name {
  readonly path: string;
  /** For messages. */
  readonly shown: string;
  readonly move: Rename;
}

/**
 * A name is freed by moving it aside, which may hit an agent that has just taken it. So what was
 * moved is looked at afterwards. While a served socket lies aside, no other agent keeps the name.
 */
async function claim(server: Server, name: Name): Promise<Release> {
  const { path, shown } = name;
  const first = `${path}${FIRST}${systemRandom.hex(RANDOM_DIGITS)}`;
  await listening(server, first, shown);
  try {
    const { ino } = await lstat(first, { bigint: true });
    await takeName(first, name);
    await keepName(ino, name);
    await removeUnserved(path);
    return () => leaveName(ino, name);
  } catch (error) {
    server.close();
    throw error;
  } finally {
    await rm(first, { force: true });
  }
}

/** A link fails if the name is taken, so of two agents that start at once one gets it. */
async function takeName(first: string, name: Name): Promise<void> {
  const { path, shown } = name;
  for (let count = 0; count < TRIES_MAX; count += 1) {
    try {
      return await link(first, path);
    } catch (error) {
      // ENOENT: the agent that has the name took the first name of this one for a remnant.
      if (errnoOf(error) === 'ENOENT') await removeLeft(name);
      if (errnoOf(error) !== 'EEXIST') throw fileError(error, `listen at ${shown}`, { path: shown });
    }
    await removeLeft(name);
  }
  throw servedByOther(shown);
}

/**
 * `AlreadyExists`: another agent had the name when this one took it, and gets it back. If this one
 * was moved aside itself, it waits until it has the name again.
 */
async function keepName(ino: bigint, name: Name): Promise<void> {
  for (let count = 0; count < GIVE_BACK_TRIES_MAX; count += 1) {
    const aside = await lyingAside(name.path);
    const other = aside.find((each) => each.ino !== ino);
    if (other) {
      await leaveName(ino, name);
      await giveBack(other.path, name);
      throw servedByOther(name.shown);
    }
    if ((await inodeOf(name.path)) === ino) return;
    const own = aside.find((each) => each.ino === ino);
    if (own) await giveBack(own.path, name);
    else await systemClock.sleep(PAUSE_MS);
  }
  throw servedByOther(name.shown);
}

/** Frees the name, unless another agent has it. */
async function leaveName(ino: bigint, name: Name): Promise<void> {
  if ((await inodeOf(name.path)) !== ino) return;
  const aside = await moveAside(name);
  if (aside === undefined) return;
  if ((await inodeOf(aside)) === ino) await rm(aside, { force: true });
  else await giveBack(aside, name);
}

/** Removes the socket that a killed agent left. `AlreadyExists`: it is served, or is no socket. */
async function removeLeft(name: Name): Promise<void> {
  const { path, shown } = name;
  const stats = await lstat(path).catch(() => null);
  if (stats === null) return;
  if (!stats.isSocket()) throw taken(shown, 'exists, and is no socket');
  if (await isServed(path)) throw servedByOther(shown);
  const aside = await moveAside(name);
  if (aside === undefined) return;
  // Another agent may have taken the name since the look at it.
  if (await isServed(aside)) {
    await giveBack(aside, name);
    throw servedByOther(shown);
  }
  await rm(aside, { force: true });
}

/** `undefined`: the name is free. */
async function moveAside({ path, shown, move }: Name): Promise<string | undefined> {
  const aside = `${path}${ASIDE}${systemRandom.hex(RANDOM_DIGITS)}`;
  try {
    await move(path, aside);
    return aside;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw fileError(error, `remove ${shown}`, { path: shown });
  }
}

/** Waits for an agent that has taken the name meanwhile: it finds what lies aside, and leaves. */
async function giveBack(aside: string, { path }: Name): Promise<void> {
  for (let count = 0; count < GIVE_BACK_TRIES_MAX; count += 1) {
    try {
      await link(aside, path);
      break;
    } catch (error) {
      // ENOENT: another agent has given it back.
      if (errnoOf(error) !== 'EEXIST') return;
      if ((await inodeOf(aside)) === (await inodeOf(path))) break;
    }
    if (!(await isServed(aside))) break;
    await systemClock.sleep(PAUSE_MS);
    if (count === GIVE_BACK_TRIES_MAX - 1) return;
  }
  await rm(aside, { force: true });
}

async function lyingAside(path: string): Promise<{ path: string; ino: bigint }[]> {
  const found: { path: string; ino: bigint }[] = [];
  for (const each of await namesBeside(path, ASIDE)) {
    const ino = await inodeOf(each);
    if (ino !== undefined && (await isServed(each))) found.push({ path: each, ino });
  }
  return found;
}

/** Removes names of agents that were killed before they had removed them. */
async function removeUnserved(path: string): Promise<void> {
  for (const remnant of [...(await namesBeside(path, FIRST)), ...(await namesBeside(path, ASIDE))]) {
    const stats = await lstat(remnant).catch(() => null);
    if (stats?.isSocket() && !(await isServed(remnant))) await rm(remnant, { force: true });
  }
}

async function namesBeside(path: string, mark: string): Promise<string[]> {
  const directory = dirname(path);
  const start = `${basename(path)}${mark}`;
  const names = await readdir(directory);
  return names
    .filter((name) => name.startsWith(start) && /^[0-9a-f]{8}$/.test(name.slice(start.length)))
    .map((name) => `${directory}/${name}`);
}

async function inodeOf(path: string, fileSystem = nodeFileSystem): Promise<bigint | undefined> {
  return (await fileSystem.lstat(path).catch(() => null))?.ino;
}

function listening(server: Server, path: string, shown: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(fileError(error, `listen at ${shown}`, { path: shown }));
    server.once('error', fail);
    server.listen(path, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    // A full queue of connections belongs to an agent that is busy.
    socket.once('error', (error) => resolve(!['ECONNREFUSED', 'ENOENT'].includes(errnoOf(error) ?? '')));
  });
}

function servedByOther(path: string): CheckpointError {
  return taken(path, 'is served by another agent');
}

function taken(path: string, what: string): CheckpointError {
  const advice = ['use that agent, or give this one a socket and a stage of its own'];
  return new CheckpointError('AlreadyExists', `${path} ${what}`, { context: { path, advice } });
}
