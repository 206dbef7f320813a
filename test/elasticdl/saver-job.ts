/**
 * For the tests of the saver: the parameter servers of a job, each with its own manager. Most tests
 * use one bucket in memory.
 */

import {
  type CheckpointManagerOptions,
  crc32c,
  createCheckpointManager,
  isCheckpointError,
  type ObjectStore,
  type RunManager,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  CheckpointSaver,
  type CheckpointSaverOptions,
  encodeShard,
  type ModelShard,
} from '@holdfast/elasticdl';

const SETTINGS = { bufferBytes: 16 * 1024 * 1024, partSizeBytesMin: 64 * 1024, retryDelayMsBase: 1 };

export function newBucket(): MemoryBucket {
  return new MemoryBucket({ crc32c });
}

/** A bucket in memory, which many processes open, or any store of one process. */
export type Where = MemoryBucket | ObjectStore;

export function openRun(where: Where, options: Partial<CheckpointManagerOptions> = {}): RunManager {
  const store = where instanceof MemoryBucket ? new MemoryStore(where) : where;
  return createCheckpointManager({ store, settings: SETTINGS, ...options });
}

/** One life of a parameter server. */
export interface Server extends AsyncDisposable {
  readonly manager: RunManager;
  readonly saver: CheckpointSaver;
  /** Saves its state of this version. Resolves to true if it delivered last and committed. */
  save(version: number, options?: Parameters<CheckpointSaver['save']>[2]): Promise<boolean>;
  /** Waits for background work, then closes. */
  close(): Promise<void>;
}

export type ServerOptions = Partial<CheckpointSaverOptions> & { attempt?: string };

/** Starts server `index` of `count`. The default attempt is the job's first. */
export function startServer(
  where: Where,
  [index, count]: readonly [number, number],
  { attempt = 'first', ...options }: ServerOptions = {},
): Server {
  const manager = openRun(where, { attempt, writer: { index, count } });
  const saver = new CheckpointSaver(manager, { index, count, checkpointSteps: 5, ...options });
  const close = () => manager.close();
  return {
    manager,
    saver,
    save: async (version, saving) => (await saver.save(version, shardOf(version, index), saving)).isCommitted,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/**
 * The state of server `index` at a version. All of them differ. `life` distinguishes two lives of a
 * server.
 */
export function shardOf(version: number, index = 0, life = 0): ModelShard {
  const bytesOf = (...values: number[]) => new Uint8Array(Float32Array.of(...values).buffer);
  return {
    version,
    infos: [{ name: 'embedding', dim: 2, initializer: 'uniform', dtype: 'float32' }],
    dense: new Map([
      [`dense_${index}/bias:0`, { dtype: 'float32', shape: [3], data: bytesOf(version, index, life) }],
    ]),
    tables: new Map([
      [
        'embedding',
        {
          dtype: 'float32',
          dim: 2,
          ids: BigInt64Array.of(BigInt(index), BigInt(index + 100)),
          values: bytesOf(version, index, life, 1),
        },
      ],
    ]),
  };
}

/** The file for the result of `shardOf`. */
export function bytesOf(
  version: number,
  index = 0,
  { life = 0, form = 'S7' as 'S4' | 'S7' } = {},
): Uint8Array {
  return new Uint8Array(Buffer.concat([...encodeShard(shardOf(version, index, life), form).chunks()]));
}

/** The error of a rejected promise as "Code: message". */
export async function failure(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isCheckpointError(error)) return `${error.code}: ${error.message}`;
  throw new Error('it did not fail as it should', { cause: error });
}

/** Live versions that no rollback left behind, newest first, as a new process sees them. */
export async function liveVersions(where: Where): Promise<number[]> {
  await using manager = openRun(where);
  return (await manager.list())
    .filter(({ state, isLeftBehind }) => state === 'live' && !isLeftBehind)
    .map(({ version }) => Number(version));
}

/** The files of a version by name, as a reader gets them. */
export async function filesOf(where: Where, version: number): Promise<Record<string, Uint8Array>> {
  await using manager = openRun(where);
  await using checkpoint = await manager.get(version);
  if (!checkpoint) throw new Error(`there is no version ${version}`);
  const { files } = await checkpoint.details();
  const bytes = Object.fromEntries(files.map(({ name, sizeBytes }) => [name, new Uint8Array(sizeBytes)]));
  await manager.restore({ version, to: bytes });
  return bytes;
}

/** Objects below a version's directory. */
export function objectsOf(bucket: MemoryBucket, version: number): string[] {
  return bucket.keys().filter((key) => key.startsWith(`version_${version}/`));
}
