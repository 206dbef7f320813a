/** The object store on a local directory. */

import {
  callback,
  checkOptions,
  having,
  type ObjectStore,
  optional,
  type Rules,
  wholeNumber,
} from '@holdfast/core/contract';
import {
  bucketMount,
  diskFileSystem,
  isLocalDisk,
  isPseudoFileSystem,
  linuxProcesses,
  type Mount,
  mountOfDirectory,
  nodeFileSystem,
} from '@holdfast/local-files';
import { type LocalConfig, type LocalOptions, parseLocalConfig } from './config.ts';
import { storeError } from './errors.ts';
import { existingDirectory, refusal } from './existing-directory.ts';
import { type LocalComponents, LocalStore, type ResumeComponents } from './store.ts';

export { type Durability, type LocalConfig, type LocalOptions, parseLocalConfig } from './config.ts';
export type { LocalComponents } from './store.ts';

/**
 * Opens the store in a directory: `file:///abs/dir?durability=fsync|none&direct=auto|off`, or the
 * same as options. Writes nothing: a missing directory is an empty store, and the first object
 * creates it. Errors:
 * - `InvalidConfig`: the URI is invalid, or the path is not a directory.
 * - `Denied`: the directory may not be read.
 * - `Unsupported`: it is a bucket mounted as a directory, or lies on a file system that keeps no
 *   files, such as /proc.
 */
export async function openLocalStore(
  target: string | LocalOptions,
  components: LocalComponents = {},
): Promise<ObjectStore> {
  const config = parseLocalConfig(target);
  checkOptions(components, COMPONENTS);
  const fileSystem = components.fileSystem ?? nodeFileSystem;
  try {
    const mount = await mountOfDirectory(fileSystem, await existingDirectory(config, fileSystem));
    // If the mount is unknown, the directory is accepted.
    if (mount !== undefined) assertKeepsFiles(config, mount);
    const isOnDisk = components.fileSystem === undefined && mount !== undefined && isLocalDisk(mount);
    return new LocalStore(
      config,
      isOnDisk ? { ...components, fileSystem: diskFileSystem } : components,
      await resumeComponents(components),
    );
  } catch (error) {
    throw storeError(error, 'open', { store: config.uri });
  }
}

const COMPONENTS: Rules<LocalComponents> = {
  fileSystem: optional(having('open', 'rename')),
  clock: optional(having('nowMs')),
  crc32c: optional(callback),
  processes: optional(having('self')),
  reserveBytes: optional(wholeNumber(0)),
};

async function resumeComponents({
  crc32c,
  processes = linuxProcesses(),
}: LocalComponents): Promise<ResumeComponents | null> {
  const self = crc32c === undefined ? null : await processes.self();
  return crc32c === undefined || self === null ? null : { crc32c, processes, self };
}

/**
 * Buckets mounted as directories lack operations that commits depend on, and would lose checkpoints
 * silently.
 */
function assertKeepsFiles(config: LocalConfig, mount: Mount): void {
  if (isPseudoFileSystem(mount)) {
    const what = `lies on ${mount.mountPoint}, a ${mount.fsType} file system, which keeps no files`;
    throw refusal('Unsupported', config, what);
  }
  const bucket = bucketMount(mount);
  if (bucket === null) return;
  const what =
    `lies on a bucket mounted by ${bucket.program}, which does not create files atomically and may lose them; ` +
    `use the bucket itself, with ${bucket.scheme}`;
  throw refusal('Unsupported', config, what);
}
