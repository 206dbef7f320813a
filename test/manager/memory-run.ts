/** For the tests of this folder: managers on a bucket in memory. */

import {
  type CheckpointManagerOptions,
  crc32c,
  createCheckpointManager,
  isCheckpointError,
  type RunManager,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { filledBytes } from '../filled-bytes.ts';

export const SETTINGS = { bufferBytes: 16 * 1024 * 1024, partSizeBytesMin: 64 * 1024, retryDelayMsBase: 1 };

export function open(bucket: MemoryBucket, options: Partial<CheckpointManagerOptions> = {}): RunManager {
  return createCheckpointManager({ store: new MemoryStore(bucket), settings: SETTINGS, ...options });
}

export function newBucket(): MemoryBucket {
  return new MemoryBucket({ crc32c });
}

export function bytes(length: number, seed = 1): Uint8Array {
  return filledBytes(length, (index) => index * 31 + seed * 17 + (index >> 8));
}

/** The error a promise rejects with, as "Code: message". */
export async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (isCheckpointError(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
  throw new Error('it did not fail');
}

export async function readAll(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
