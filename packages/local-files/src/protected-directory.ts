/**
 * Directories that are never replaced, whatever the options: a restore must not delete what they
 * contain.
 */

import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { FileSystem } from './file-system.ts';
import { isAtOrBelow } from './local-path.ts';
import { parseMountInfo } from './mounts.ts';

/**
 * Returns why the directory is never replaced; `null`: nothing about its place forbids that.
 * `path`: absolute, without links.
 */
export async function protectionOf(fileSystem: FileSystem, path: string): Promise<string | null> {
  if (dirname(path) === path) return 'is the root of the file system';
  const mountPoint = await mountPointIn(fileSystem, path);
  if (mountPoint === path) return 'is a mount point';
  if (mountPoint !== null) return `holds a mount point, ${mountPoint}`;
  // Compare by identity: another spelling or a bind mount leads to the same directory.
  const own = await identityOf(fileSystem, path);
  if (own === null) return null;
  if (await leadsThrough(fileSystem, workingDirectory(), own)) return 'is the working directory, or holds it';
  for (const home of await homes(fileSystem)) {
    if (await leadsThrough(fileSystem, home, own)) return `is the home directory ${home}, or holds it`;
  }
  return null;
}

/**
 * The first mount at or below a path. Without /proc: the path itself, if it lies on another device
 * than its parent.
 */
export async function mountPointIn(fileSystem: FileSystem, path: string): Promise<string | null> {
  const text = await fileSystem.readText('/proc/self/mountinfo').catch(() => null);
  if (text !== null) {
    const points = parseMountInfo(text).map(({ mountPoint }) => mountPoint);
    return points.find((point) => isAtOrBelow(point, path)) ?? null;
  }
  const [here, above] = [await fileSystem.stat(path), await fileSystem.stat(dirname(path))];
  return here.dev === above.dev ? null : path;
}

/** `null`: the working directory was removed. */
function workingDirectory(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}

async function homes(fileSystem: FileSystem): Promise<string[]> {
  const users = await fileSystem.readText('/etc/passwd').catch(() => '');
  const listed = users.split('\n').map((line) => line.split(':')[5] ?? '');
  return [...new Set([homedir(), ...listed])].filter((home) => home.startsWith('/'));
}

/** Tells whether `path` is the directory with this `identity`, or lies below that directory. */
async function leadsThrough(fileSystem: FileSystem, path: string | null, identity: string): Promise<boolean> {
  const real = path === null ? null : await fileSystem.realpath(path).catch(() => null);
  for (let at = real; at !== null; at = dirname(at) === at ? null : dirname(at)) {
    if ((await identityOf(fileSystem, at)) === identity) return true;
  }
  return false;
}

async function identityOf(fileSystem: FileSystem, path: string): Promise<string | null> {
  const stats = await fileSystem.stat(path).catch(() => null);
  return stats === null ? null : `${stats.dev}-${stats.ino}`;
}
