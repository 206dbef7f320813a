/** Headers of many files at the same time, within a limit on their bytes together. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createCheckpointManager } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { bytes, newBucket, open, SETTINGS } from './memory-run.ts';
import { safetensors } from './safetensors-bytes.ts';

const FILES = 12;
const HEADER_BYTES = 1_500_000;
/** Read of each file before its header has to wait. */
const FIRST_BYTES = 256 * 1024;
/** A quarter of the byte budget. */
const HELD_BYTES_MAX = SETTINGS.bufferBytes / 4;

/** Counts the bytes of headers whose second part is being read. Each read takes a moment. */
class Counting extends MemoryStore {
  readonly #open = new Map<string, number>();
  heldBytesMost = 0;

  override async readInto(...args: Parameters<MemoryStore['readInto']>): Promise<number> {
    const [key, offsetBytes] = args;
    const isOfHeader = offsetBytes >= FIRST_BYTES && offsetBytes < HEADER_BYTES && key.includes('m-');
    if (isOfHeader) this.#open.set(key, (this.#open.get(key) ?? 0) + 1);
    this.heldBytesMost = Math.max(this.heldBytesMost, this.#open.size * HEADER_BYTES);
    await new Promise((resolve) => setTimeout(resolve, 5));
    try {
      return await super.readInto(...args);
    } finally {
      const left = (this.#open.get(key) ?? 1) - 1;
      if (left > 0) this.#open.set(key, left);
      else this.#open.delete(key);
    }
  }
}

let bucket: MemoryBucket;
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-headers-'));
  bucket = newBucket();
  const files = Array.from({ length: FILES }, (_, at) => {
    const tensors = { [`w${at}`]: { shape: [9], data: bytes(9) } };
    return [`m-${at}.safetensors`, safetensors(tensors, { note: 'x'.repeat(HEADER_BYTES) })];
  });
  await using manager = open(bucket);
  await manager.save({ version: 1, buffers: Object.fromEntries(files) });
});
afterEach(() => rm(directory, { recursive: true }));

test.each(['inspect', 'export'])('%s holds no more bytes of headers than the limit', async (call) => {
  const store = new Counting(bucket);
  await using manager = createCheckpointManager({ store, settings: SETTINGS, files: localFiles });
  if (call === 'inspect') expect((await manager.admin.inspect()).files).toHaveLength(FILES);
  else
    expect(await manager.admin.exportTensors({ to: join(directory, 'model') })).toMatchObject({
      tensorCount: FILES,
    });
  expect(store.heldBytesMost).toBeGreaterThan(HEADER_BYTES);
  expect(store.heldBytesMost).toBeLessThanOrEqual(HELD_BYTES_MAX);
});
