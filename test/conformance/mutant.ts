/** Stores that each break one promise, made from the reference store. */

import type { ObjectStore, StoreCapabilities, Upload } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { crc32c } from '@holdfast/testkit';

export interface Mutant {
  /** The defect of this store. */
  readonly name: string;
  /** The check that must detect it. */
  readonly breaks: string;
  /** Makes a new, empty store. Each call of the result opens another client of it. */
  readonly make: () => () => Promise<ObjectStore>;
}

export interface MutantParts {
  readonly bucket: MemoryBucket;
  /** A correct client of the bucket. */
  readonly sound: MemoryStore;
  /** Number of clients opened before this one. */
  readonly clientCount: number;
}

type Changes = { -readonly [name in keyof ObjectStore]?: ObjectStore[name] };

interface MutantOptions {
  /**
   * Capabilities that the mutant claims. The correct store below it has the same ones unless
   * `soundCapabilities` overrides them.
   */
  readonly capabilities?: Partial<StoreCapabilities>;
  readonly soundCapabilities?: Partial<StoreCapabilities>;
}

/** A memory store with some replaced members. */
export function mutant(
  name: string,
  breaks: string,
  change: (parts: MutantParts) => Changes,
  options: MutantOptions = {},
): Mutant {
  const make = () => {
    const bucket = new MemoryBucket({ crc32c });
    let clientCount = 0;
    return async () => {
      const sound = new MemoryStore(bucket, {
        capabilities: { ...options.capabilities, ...options.soundCapabilities },
      });
      const store = new MemoryStore(bucket, { capabilities: options.capabilities });
      Object.assign(store, change({ bucket, sound, clientCount }));
      clientCount++;
      return store;
    };
  };
  return { name, breaks, make };
}

type UploadChanges = { -readonly [name in keyof Upload]?: Upload[name] };

/**
 * A memory store whose uploads have some replaced members, both for new and for resumed uploads.
 */
export function uploadMutant(
  name: string,
  breaks: string,
  change: (upload: Upload, parts: MutantParts) => UploadChanges,
  options: MutantOptions = {},
): Mutant {
  const changed = (upload: Upload, parts: MutantParts): Upload => ({
    key: upload.key,
    token: upload.token,
    partSizeBytes: upload.partSizeBytes,
    putPart: (...args) => upload.putPart(...args),
    listParts: (...args) => upload.listParts(...args),
    complete: (...args) => upload.complete(...args),
    abort: (...args) => upload.abort(...args),
    ...change(upload, parts),
  });
  const changeStore = (parts: MutantParts): Changes => ({
    beginUpload: async (...args) => changed(await parts.sound.beginUpload(...args), parts),
    resumeUpload: async (...args) => changed(await parts.sound.resumeUpload(...args), parts),
  });
  return mutant(name, breaks, changeStore, options);
}

export function later(ms = 5): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits a short time. If the signal fires first, it rejects as `fetch` does. */
export function interruptible(signal: AbortSignal | undefined, ms = 5): Promise<void> {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}
