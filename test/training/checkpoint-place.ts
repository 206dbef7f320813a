/**
 * Checkpoint locations for the scenarios and the table: managers for training, and access to the
 * stored bytes.
 */

import { chmod, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { openS3Bucket } from '../servers/s3-access.ts';
import { partsOfBucket, type TestBucket } from '../servers/test-bucket.ts';
import { type OpenManager, openManager } from './open-manager.ts';
import type { Checkpoints } from './worker-messages.ts';

/** Name of the file that the train loop saves. */
const KEY = 'default';

export interface CheckpointPlace {
  /** For workers in separate processes. */
  readonly checkpoints: Checkpoints;
  /** A new manager, as a new process opens one. */
  open(): Promise<OpenManager>;
  /** Replaces the stored bytes of a checkpoint without its manager. `null`: deletes them. */
  damage(version: bigint, change: (bytes: Uint8Array) => Uint8Array | null): Promise<void>;
}

/** A directory in torchelastic's layout. */
export function directoryPlace(path: string): CheckpointPlace {
  const checkpoints: Checkpoints = { in: 'directory', path };
  return {
    checkpoints,
    open: () => openManager(checkpoints),
    damage: (version, change) => damageFile(join(path, String(version), KEY), change),
  };
}

export function localRunPlace(directory: string): CheckpointPlace {
  const checkpoints: Checkpoints = { in: 'run', uri: pathToFileURL(directory).href, env: {} };
  return {
    checkpoints,
    open: () => openManager(checkpoints),
    damage: async (version, change) =>
      damageFile(join(directory, await keyInRun(checkpoints, version)), change),
  };
}

/** `env`: credentials for managers, if they differ from those of the bucket. */
export function bucketPlace(bucket: TestBucket, env = bucket.env): CheckpointPlace {
  const checkpoints: Checkpoints = { in: 'run', uri: bucket.uri, env };
  return {
    checkpoints,
    open: () => openManager(checkpoints),
    damage: async (version, change) => {
      const key = `${partsOfBucket(bucket).prefix}/${await keyInRun(checkpoints, version)}`;
      const view = await openS3Bucket(bucket);
      try {
        const changed = change(await view.read(key));
        await view.deletePrefix(key);
        if (changed !== null) await view.create(key, changed);
      } finally {
        view.close();
      }
    },
  };
}

async function keyInRun(checkpoints: Checkpoints & { in: 'run' }, version: bigint): Promise<string> {
  await using manager = await openCheckpointManager(checkpoints.uri, { env: checkpoints.env });
  const [file] = (await (await manager.get(version))?.details())?.files ?? [];
  if (file === undefined) throw new Error(`there is no checkpoint ${version} with a file to damage`);
  return file.key;
}

async function damageFile(path: string, change: (bytes: Uint8Array) => Uint8Array | null): Promise<void> {
  const changed = change(await readFile(path));
  if (changed === null) return rm(path);
  await chmod(path, 0o600);
  await writeFile(path, changed);
}
