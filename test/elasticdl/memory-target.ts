/** A target whose files a test can inspect. */

import type { RestoreTarget } from '@holdfast/core';
import { assert } from 'vitest';

export interface MemoryTarget extends RestoreTarget {
  readonly state: 'open' | 'published' | 'discarded';
  readonly files: Readonly<Record<string, Uint8Array>>;
}

/**
 * Every byte of a file must be written exactly once. Every file must be closed before all are
 * published.
 */
export function memoryTarget(options: { readonly onWrite?: (name: string) => void } = {}): MemoryTarget {
  const files: Record<string, Uint8Array> = {};
  const openNames = new Set<string>();
  const target = {
    state: 'open' as MemoryTarget['state'],
    files,
    async open({ name, sizeBytes }: { name: string; sizeBytes: number }) {
      assert(!(name in files), `${name} is opened once`);
      const bytes = new Uint8Array(sizeBytes);
      const isWritten = new Uint8Array(sizeBytes);
      files[name] = bytes;
      openNames.add(name);
      return {
        async writeAt(offsetBytes: number, buffer: Uint8Array) {
          options.onWrite?.(name);
          const end = offsetBytes + buffer.byteLength;
          assert(
            end <= sizeBytes && !isWritten.subarray(offsetBytes, end).includes(1),
            `${name}: each byte once`,
          );
          isWritten.fill(1, offsetBytes, end);
          // Copies later, so that memory which is reused too early is detected.
          await new Promise((resolve) => setImmediate(resolve));
          bytes.set(buffer, offsetBytes);
        },
        async close() {
          assert(!isWritten.includes(0), `${name}: every byte`);
          openNames.delete(name);
        },
      };
    },
    async publish() {
      assert(
        target.state === 'open' && openNames.size === 0,
        'all files are closed, and nothing is settled yet',
      );
      target.state = 'published';
    },
    async discard() {
      if (target.state === 'open') target.state = 'discarded';
    },
  };
  return target;
}
