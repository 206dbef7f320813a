import { basename, dirname, join } from 'node:path';
import { atATime, throwIfAborted } from '@holdfast/core/contract';
import {
  errnoOf,
  type FileSystem,
  fileError,
  localFiles,
  localPath,
  nodeFileSystem,
} from '@holdfast/local-files';
import type { ShardSet } from '../shard-set.ts';
import { parseModelFile, parseShardFile, parseVersionFolder } from './names.ts';
import { type OpenOptions, openShards, type Place } from './place.ts';

/**
 * Opens a version directory that ElasticDL has written; see `openShards` for errors. Links are
 * followed.
 */
export function openDirectoryShards(directory: string, options: OpenOptions = {}): Promise<ShardSet> {
  return openShards(directoryPlace(directory), options);
}

/**
 * A directory of this machine: of one version, or the parent of all versions. Reads nothing yet.
 */
export function directoryPlace(directory: string, fileSystem: FileSystem = nodeFileSystem): Place {
  const root = localPath(directory);
  const pathOf = (name: string) => join(root, name);
  return {
    name: basename(root),
    where: pathOf,
    list: (signal) => listDirectory(root, fileSystem, signal),
    open: (name) => localFiles.openSource(pathOf(name)),
    pathOf,
    parent: () => (dirname(root) === root ? null : directoryPlace(dirname(root), fileSystem)),
  };
}

/** Reads in flight at once: each waits for a disk or a server. */
const READ_AT_ONCE = 16;

interface Entries {
  readonly files: readonly string[];
  readonly versions: readonly string[];
}

async function listDirectory(
  root: string,
  fileSystem: FileSystem,
  signal: AbortSignal | undefined,
): Promise<ReadonlyMap<string, readonly string[]>> {
  throwIfAborted(signal);
  const { files, versions } = await entriesOf(root, fileSystem);
  const folders = new Map([['', files]]);
  await atATime(versions, READ_AT_ONCE, async (version) => {
    throwIfAborted(signal);
    const inside = await entriesOf(join(root, version), fileSystem).catch((error: unknown) => {
      // ElasticDL removes old versions while it runs.
      if (errnoOf((error as Error).cause) === 'ENOENT') return null;
      throw error;
    });
    if (inside) folders.set(version, inside.files);
  });
  return folders;
}

async function entriesOf(path: string, fileSystem: FileSystem): Promise<Entries> {
  const files: string[] = [];
  const versions: string[] = [];
  try {
    for (const entry of await fileSystem.readdir(path)) {
      const name = entry.name.toString();
      const isFile = parseShardFile(name) !== null || parseModelFile(name) !== null;
      if (!isFile && parseVersionFolder(name) === null) continue;
      const what = entry.isSymbolicLink() ? await behind(join(path, name), fileSystem) : entry;
      if (isFile && what?.isFile()) files.push(name);
      if (!isFile && what?.isDirectory()) versions.push(name);
    }
  } catch (error) {
    throw fileError(error, `read the directory ${path}`, { path });
  }
  return { files, versions };
}

/** `null`: a dangling link. */
async function behind(path: string, fileSystem: FileSystem) {
  try {
    return await fileSystem.stat(path);
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return null;
    throw error;
  }
}
