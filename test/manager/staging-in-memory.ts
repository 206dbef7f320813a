/** Copies of the data to save, in memory, so that tests can observe them. */

import type { RandomSource, Stage, Staging, StagingSource } from '@holdfast/core/contract';

export interface MemoryStaging extends Staging {
  /** Number of stages that were made and not released. */
  heldCount: number;
  releaseCount: number;
}

interface Copy extends Pick<RandomSource, 'mode' | 'mtimeMs'> {
  readonly bytes: Uint8Array;
}

/**
 * `onStaged` runs when everything is copied, before the save learns of it. Reading a released copy
 * is an error.
 */
export function memoryStaging(onStaged: () => unknown = () => undefined): MemoryStaging {
  const staging: MemoryStaging = {
    heldCount: 0,
    releaseCount: 0,
    async stage(sources) {
      const copied: Copy[] = [];
      for (const { source } of sources) copied.push(await copyOf(source));
      let isHeld = true;
      staging.heldCount++;
      await onStaged();
      const stage: Stage = {
        copies: copied.map((copy) => ({
          sizeBytes: copy.bytes.byteLength,
          open: async () => sourceOf(copy, () => isHeld),
        })),
        release: async () => {
          if (isHeld) staging.heldCount--;
          isHeld = false;
          staging.releaseCount++;
        },
      };
      return stage;
    },
  };
  return staging;
}

async function copyOf(source: StagingSource): Promise<Copy> {
  if ('bytes' in source) return { bytes: source.bytes.slice() };
  if ('stream' in source) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of source.stream) chunks.push(chunk.slice());
    return { bytes: new Uint8Array(Buffer.concat(chunks)) };
  }
  const opened = await source.open();
  try {
    const bytes = new Uint8Array(opened.sizeBytes);
    await opened.readInto(0, bytes);
    await opened.assertUnchanged();
    return { bytes, mode: opened.mode, mtimeMs: opened.mtimeMs };
  } finally {
    await opened.close();
  }
}

function sourceOf({ bytes, mode, mtimeMs }: Copy, isHeld: () => boolean): RandomSource {
  return {
    sizeBytes: bytes.byteLength,
    mode,
    mtimeMs,
    async readInto(offsetBytes, buffer) {
      if (!isHeld()) throw new Error('the copy was given back and is read all the same');
      buffer.set(bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength));
    },
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
}
