/** For the tests of this folder: a run to copy from, a run to copy to, both in memory. */

import {
  type CheckpointManagerOptions,
  crc32c,
  createCheckpointManager,
  type RunManager,
} from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore, type StoreOperation } from '@holdfast/core/store';
import { filesOf, SETTINGS } from '../crash/invariants.ts';

export interface TwoRuns {
  readonly from: MemoryBucket;
  readonly to: MemoryBucket;
}

export function twoRuns(options: ConstructorParameters<typeof MemoryBucket>[0] = {}): TwoRuns {
  return {
    from: new MemoryBucket({ crc32c, name: 'from', ...options }),
    to: new MemoryBucket({ crc32c, name: 'to', ...options }),
  };
}

export function open(
  place: MemoryBucket | ObjectStore,
  options: Partial<CheckpointManagerOptions> = {},
): RunManager {
  const store = place instanceof MemoryBucket ? new MemoryStore(place) : place;
  return createCheckpointManager({ store, settings: SETTINGS, ...options });
}

/**
 * Saves versions with `count` writers and the files of `filesOf`. No two versions share objects, so
 * a test can damage one version alone.
 */
export async function saveAll(
  bucket: MemoryBucket,
  versions: readonly bigint[],
  { attempt = 'job-0', count = 1 }: { attempt?: string; count?: number } = {},
): Promise<void> {
  for (const version of versions) {
    const saves = Array.from({ length: count }, async (_, index) => {
      await using manager = open(bucket, { attempt, writer: { index, count }, dedupe: 'off' });
      await manager.save({
        version,
        buffers: filesOf(attempt, version, index),
        metrics: { loss: 1 / Number(version + 1n), [`of-${index}`]: index },
        metadata: { [`note-${index}`]: `of writer ${index}` },
      });
    });
    await Promise.all(saves);
  }
}

/**
 * Everything that a reader sees of a run, as comparable values, without the values that differ
 * between runs.
 */
export async function contentOf(manager: RunManager): Promise<unknown[]> {
  const content: unknown[] = [];
  for (const { version, committedAtMs } of await manager.list()) {
    const checkpoint = await manager.get(version);
    const details = await checkpoint?.details();
    if (!details) continue;
    const { worldSize, metrics, metadata, sizeBytes, fileCount, files } = details;
    const to = Object.fromEntries(files.map((file) => [file.name, new Uint8Array(file.sizeBytes)]));
    await manager.restore({ version, to });
    content.push({
      ...{ version, committedAtMs, worldSize, metrics, metadata, sizeBytes, fileCount },
      files: files.map(({ name, crc32c: sum, writer }) => ({
        name,
        writer,
        crc32c: sum,
        bytes: crc32c(to[name] as Uint8Array),
      })),
    });
  }
  return content;
}

/** A store that does something once, before the first call that `matches`. */
export function interfered(
  bucket: MemoryBucket,
  matches: (operation: StoreOperation, key: string) => boolean,
  interfere: () => Promise<unknown>,
): ObjectStore {
  const store = new MemoryStore(bucket);
  let isDone = false;
  const before = async (operation: StoreOperation, key: string) => {
    if (isDone || !matches(operation, key)) return;
    isDone = true;
    await interfere();
  };
  return Object.assign(Object.create(store) as ObjectStore, {
    uri: store.uri,
    capabilities: store.capabilities,
    async create(...args: Parameters<ObjectStore['create']>) {
      await before('create', args[0]);
      return store.create(...args);
    },
    async beginUpload(...args: Parameters<ObjectStore['beginUpload']>) {
      await before('beginUpload', args[0]);
      return store.beginUpload(...args);
    },
    async readInto(...args: Parameters<ObjectStore['readInto']>) {
      await before('readInto', args[0]);
      return store.readInto(...args);
    },
    get: (...args: Parameters<ObjectStore['get']>) => store.get(...args),
    head: (...args: Parameters<ObjectStore['head']>) => store.head(...args),
    list: (...args: Parameters<ObjectStore['list']>) => store.list(...args),
    deleteMany: (...args: Parameters<ObjectStore['deleteMany']>) => store.deleteMany(...args),
    resumeUpload: (...args: Parameters<ObjectStore['resumeUpload']>) => store.resumeUpload(...args),
    close: () => store.close(),
  });
}
