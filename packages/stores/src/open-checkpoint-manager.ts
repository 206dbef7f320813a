import { hostname } from 'node:os';
import { type CheckpointManagerOptions, createCheckpointManager, type RunManager } from '@holdfast/core';
import { flag, type LocalFiles, plainObject } from '@holdfast/core/contract';
import { filesBeside, localFiles } from '@holdfast/local-files';
import type { StoreEnvironment } from './env.ts';
import { assertOwnPlace } from './first-save.ts';
import { openStore } from './open-store.ts';
import { pathOfFileUri } from './uri.ts';

/** Options of the engine, except the store, which the URI decides. `files`: default those of this
 * machine. */
export interface OpenOptions extends Omit<CheckpointManagerOptions, 'store'> {
  /** Fills what the URI leaves open; default: `process.env`. */
  env?: StoreEnvironment | undefined;
  /**
   * Begins a run even if other runs lie below it, if it lies in another one, or where no search for
   * runs would find it. Default: `InvalidArgument`.
   */
  mayShareItsPlace?: boolean | undefined;
}

/**
 * Opens the manager of the run under a URI. Paths given to `save` and `restore` are files of this
 * machine. `close()` of the manager closes the store. `InvalidConfig`: the URI or a setting is
 * invalid.
 */
export async function openCheckpointManager(uri: string, options: OpenOptions = {}): Promise<RunManager> {
  plainObject('what openCheckpointManager is given', options);
  const { env, mayShareItsPlace = false, ...rest } = options;
  flag('mayShareItsPlace', mayShareItsPlace);
  const store = await openStore(uri, env);
  try {
    return createCheckpointManager({
      process: { host: hostname(), pid: process.pid },
      ...(!mayShareItsPlace && {
        beforeFirstSave: (records, signal) => assertOwnPlace(uri, { uri: store.uri, records, env }, signal),
      }),
      ...rest,
      store,
      files: filesOf(store.uri, rest.files ?? localFiles),
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function filesOf(runUri: string, files: LocalFiles): LocalFiles {
  const path = pathOfFileUri(runUri);
  return path === null ? files : filesBeside(files, path);
}
