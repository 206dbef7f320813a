import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import {
  type CheckpointManager,
  type CheckpointManagerOptions,
  createCheckpointManager,
} from '@holdfast/core';
import { plainObject } from '@holdfast/core/contract';
import { filesBeside, localFiles } from '@holdfast/local-files';
import type { StoreEnvironment } from './env.ts';
import { openStore } from './open-store.ts';

/** What the engine takes, without what the URI decides. */
export interface OpenOptions extends Omit<CheckpointManagerOptions, 'store' | 'files'> {
  /** Fills what the URI leaves open; default: `process.env`. */
  env?: StoreEnvironment | undefined;
}

/**
 * The manager of the run under a URI; paths given to `save` and `restore` are files of this machine.
 * `close()` of the manager closes the store. `InvalidConfig`: the URI or a setting.
 */
export async function openCheckpointManager(
  uri: string,
  options: OpenOptions = {},
): Promise<CheckpointManager> {
  plainObject('what openCheckpointManager is given', options);
  const { env, ...rest } = options;
  const store = await openStore(uri, env);
  try {
    return createCheckpointManager({
      process: { host: hostname(), pid: process.pid },
      ...rest,
      store,
      files: filesOf(store.uri),
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function filesOf(runUri: string): typeof localFiles {
  return runUri.startsWith('file:') ? filesBeside(localFiles, fileURLToPath(runUri)) : localFiles;
}
