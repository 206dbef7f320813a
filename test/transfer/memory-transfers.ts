/**
 * For the tests of this folder: transfers on a bucket in memory, with planned faults and a clock
 * that advances when everything waits.
 */

import {
  completeSettings,
  isCheckpointError,
  type RandomSink,
  type RandomSource,
  type Settings,
  type StoreCapabilities,
  silentLogger,
} from '@holdfast/core';
import {
  createTransfers,
  type DownloadItem,
  type StoredFile,
  type Transfers,
  type UploadItem,
} from '@holdfast/core/internal/transfer/index';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import {
  crc32c,
  type FaultPlan,
  FaultyStore,
  LateEffects,
  ManualClock,
  SeededRandom,
} from '@holdfast/testkit';

export const MIB = 1024 * 1024;
/** Parts of files and of streams, with the settings and capabilities used here. */
export const PART = 64 * 1024;

export interface SetUpOptions {
  plan?: FaultPlan;
  settings?: Partial<Settings>;
  capabilities?: Partial<StoreCapabilities>;
  bucket?: MemoryBucket;
}

export function setUp(options: SetUpOptions = {}) {
  const clock = new ManualClock({ autoAdvance: true });
  const bucket = options.bucket ?? new MemoryBucket({ crc32c, clock });
  // So many parts that parts of streams are small too.
  const capabilities = {
    maxParts: 2 ** 24,
    preferredConcurrency: 4,
    preferredPartConcurrency: 4,
    ...options.capabilities,
  };
  const lateEffects = new LateEffects();
  const store = new FaultyStore(new MemoryStore(bucket, { capabilities }), options.plan, { lateEffects });
  const settings = completeSettings({ bufferBytes: 16 * MIB, partSizeBytesMin: PART, ...options.settings });
  const random = new SeededRandom(1);
  const transfers = createTransfers({ store, settings, clock, random, logger: silentLogger });
  return { bucket, clock, lateEffects, settings, store, transfers };
}

/** Bytes without any pattern that could hide a mistake. Another seed gives other bytes. */
export function bytesOf(length: number, seed = 1): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = new SeededRandom(seed).uint32();
  for (let index = 0; index < words.length; index += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0; // Numerical Recipes
    words[index] = state ^ (state >>> 15);
  }
  return new Uint8Array(words.buffer, 0, length);
}

/** Returns a new key at each call. */
export function freshKeys(name: string): () => string {
  let count = 0;
  return () => `data/${name}.${count++}`;
}

export async function* chunksOf(bytes: Uint8Array, chunkBytes: number): AsyncGenerator<Uint8Array> {
  // One chunk buffer for all chunks, as a producer may reuse it.
  const chunk = new Uint8Array(Math.min(chunkBytes, bytes.byteLength));
  for (let at = 0; at < bytes.byteLength; at += chunkBytes) {
    const length = Math.min(chunkBytes, bytes.byteLength - at);
    chunk.set(bytes.subarray(at, at + length));
    yield chunk.subarray(0, length);
    chunk.fill(0xee);
  }
}

/** A source in memory that records its calls. */
export class NotedSource implements RandomSource {
  readonly bytes: Uint8Array;
  readonly mode: number | undefined;
  readonly mayHideChanges: boolean | undefined;
  openCount = 0;
  closeCount = 0;
  readonly reads: number[] = [];
  /** Called before each step, with its name. */
  readonly before: (step: string) => void;

  constructor(
    bytes: Uint8Array,
    options: { mode?: number; mayHideChanges?: boolean; before?: (step: string) => void } = {},
  ) {
    this.bytes = bytes;
    this.mayHideChanges = options.mayHideChanges;
    this.mode = options.mode;
    this.before = options.before ?? (() => undefined);
  }

  get sizeBytes(): number {
    return this.bytes.byteLength;
  }

  open = async (): Promise<RandomSource> => {
    this.before('open');
    this.openCount += 1;
    return this;
  };

  async readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    this.before('readInto');
    this.reads.push(offsetBytes);
    buffer.set(this.bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength));
  }

  async assertUnchanged(): Promise<void> {
    this.before('assertUnchanged');
  }

  async close(): Promise<void> {
    this.closeCount += 1;
    this.before('close');
  }
}

/** A sink in memory that records its calls. Bytes that were never written stay 0xaa. */
export class NotedSink implements RandomSink {
  readonly bytes: Uint8Array;
  openCount = 0;
  closeCount = 0;
  writtenBytes = 0;
  readonly before: (step: string) => void;

  constructor(sizeBytes: number, before: (step: string) => void = () => undefined) {
    this.bytes = new Uint8Array(sizeBytes).fill(0xaa);
    this.before = before;
  }

  open = async (): Promise<RandomSink> => {
    this.before('open');
    this.openCount += 1;
    return this;
  };

  async writeAt(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    this.before('writeAt');
    this.bytes.set(buffer, offsetBytes);
    this.writtenBytes += buffer.byteLength;
  }

  async close(): Promise<void> {
    this.closeCount += 1;
    this.before('close');
  }
}

export function fileItem(name: string, source: NotedSource): UploadItem {
  return { name, key: freshKeys(name), source: { open: source.open } };
}

export function bytesItem(name: string, bytes: Uint8Array): UploadItem {
  return { name, key: freshKeys(name), source: { bytes } };
}

export function streamItem(name: string, stream: AsyncIterable<Uint8Array>): UploadItem {
  return { name, key: freshKeys(name), source: { stream } };
}

export function downloadItem(file: StoredFile, sink: NotedSink): DownloadItem {
  return { file, sink: sink.open };
}

/** The expected record of these bytes, computed here without the engine. */
export function recordOf(name: string, key: string, bytes: Uint8Array, partSizeBytes: number): StoredFile {
  const partCount = Math.ceil(bytes.byteLength / partSizeBytes);
  const partCrc32c = new Uint8Array(partCount * 4);
  for (let part = 0; part < partCount; part += 1) {
    const crc = crc32c(bytes.subarray(part * partSizeBytes, (part + 1) * partSizeBytes));
    new DataView(partCrc32c.buffer).setUint32(part * 4, crc);
  }
  const sizes = { sizeBytes: bytes.byteLength, partSizeBytes: bytes.byteLength === 0 ? 0 : partSizeBytes };
  return { name, key, ...sizes, crc32c: crc32c(bytes), partCrc32c };
}

export async function failureOf(promise: Promise<unknown>) {
  try {
    await promise;
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it did not fail');
}

export function isWhole(transfers: Transfers): boolean {
  return transfers.memory.freeBytes === transfers.memory.totalBytes;
}

export function isEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && Buffer.compare(a, b) === 0;
}
