/** The object store on a local directory. */

import { constants } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { CheckpointError, type ErrorCode, type ObjectStore } from '@holdfast/core/contract';
import {
  bucketMount,
  diskFileSystem,
  errnoOf,
  type FileSystem,
  isLocalDisk,
  type Mount,
  mountOfDirectory,
  nodeFileSystem,
} from '@holdfast/local-files';
import { type LocalConfig, type LocalOptions, parseLocalConfig } from './config.ts';
import { storeError } from './errors.ts';
import { type LocalComponents, LocalStore } from './store.ts';

export { type Durability, type LocalConfig, type LocalOptions, parseLocalConfig } from './config.ts';
export type { LocalComponents } from './store.ts';

/**
 * Opens the store in a directory: `file:///abs/dir?durability=fsync|none&direct=auto|off`, or the same as options. Writes nothing: a
 * directory that is not there is an empty store, and is created with the first object.
 * `InvalidConfig`: the URI, or the path is not that of a directory; `Denied`: it may not be read; `Unsupported`: it is a bucket mounted
 * as a directory.
 */
export async function openLocalStore(
  target: string | LocalOptions,
  components: LocalComponents = {},
): Promise<ObjectStore> {
  const config = parseLocalConfig(target);
  const fileSystem = components.fileSystem ?? nodeFileSystem;
  try {
    const mount = await mountOfDirectory(fileSystem, await existingDirectory(config, fileSystem));
    // Where the mount is not known, nothing is refused.
    if (mount !== undefined) assertNoBucket(config, mount);
    const isOnDisk = components.fileSystem === undefined && mount !== undefined && isLocalDisk(mount);
    return new LocalStore(config, isOnDisk ? { ...components, fileSystem: diskFileSystem } : components);
  } catch (error) {
    throw storeError(error, 'open', { store: config.uri });
  }
}

/** The directory itself, or the closest one above it that exists. */
async function existingDirectory(config: LocalConfig, fileSystem: FileSystem): Promise<string> {
  for (let path = resolve(config.directory); ; path = dirname(path)) {
    try {
      const stats = await fileSystem.stat(path);
      if (!stats.isDirectory()) throw refusal('InvalidConfig', config, `${path} is not a directory`);
      // Permissions are checked as a reader meets them: access(2) would ask for the real user, not the effective one.
      if (path === resolve(config.directory)) {
        await fileSystem.close(await fileSystem.open(path, constants.O_RDONLY | constants.O_DIRECTORY));
      }
      return path;
    } catch (error) {
      const isMissing = ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      if (!isMissing || path === dirname(path)) throw error;
    }
  }
}

/** Buckets mounted as directories lack what commits rest on, and would lose checkpoints silently. */
function assertNoBucket(config: LocalConfig, mount: Mount): void {
  const bucket = bucketMount(mount);
  if (bucket === null) return;
  const what =
    `lies on a bucket mounted by ${bucket.program}, which neither creates files atomically nor keeps them as promised; ` +
    `give the bucket itself, as ${bucket.scheme}`;
  throw refusal('Unsupported', config, what);
}

function refusal(code: ErrorCode, config: LocalConfig, what: string): CheckpointError {
  return new CheckpointError(code, `${config.uri}: ${what}`, {
    context: { store: config.uri, path: config.directory },
  });
}
