/** Buffers of the caller as the destination of a restore. */

import { CheckpointError } from '../contract/errors.ts';
import type { RestoreTarget } from '../contract/files.ts';

type Buffers = Readonly<Record<string, Uint8Array>>;

/**
 * After a failed restore the content of the buffers is undefined, as the docstring of the option
 * says. `InvalidArgument`: two buffers share memory, so one file would overwrite the other.
 */
export function bufferTarget(buffers: Buffers): RestoreTarget {
  assertApart(buffers);
  return {
    async open({ name, sizeBytes }) {
      const buffer = buffers[name];
      if (!(buffer instanceof Uint8Array) || buffer.byteLength !== sizeBytes) {
        const given = buffer instanceof Uint8Array ? `${buffer.byteLength} bytes` : typeof buffer;
        throw new CheckpointError(
          'InvalidArgument',
          `the buffer for "${name}" has ${given}; the file has ${sizeBytes} bytes`,
          { context: { name } },
        );
      }
      return {
        async writeAt(offsetBytes, bytes) {
          buffer.set(bytes, offsetBytes);
        },
        async close() {
          // Memory needs no closing.
        },
      };
    },
    async publish() {
      // The buffers belong to the caller, who sees them all along.
    },
    async discard() {
      // After a failed restore the content of the buffers is undefined.
    },
  };
}

function assertApart(buffers: Buffers): void {
  const byMemory = new Map<ArrayBufferLike, [name: string, buffer: Uint8Array][]>();
  for (const [name, buffer] of Object.entries(buffers)) {
    if (!(buffer instanceof Uint8Array) || buffer.byteLength === 0) continue;
    const others = byMemory.get(buffer.buffer);
    if (others) others.push([name, buffer]);
    else byMemory.set(buffer.buffer, [[name, buffer]]);
  }
  for (const sharing of byMemory.values()) {
    sharing.sort(([, one], [, other]) => one.byteOffset - other.byteOffset);
    for (const [index, [name, buffer]] of sharing.slice(1).entries()) {
      const [before, { byteOffset, byteLength }] = sharing[index] as [string, Uint8Array];
      if (byteOffset + byteLength > buffer.byteOffset) throw sharesMemory(before, name);
    }
  }
}

function sharesMemory(one: string, other: string): CheckpointError {
  const message = `the buffers for "${one}" and "${other}" share memory, so one file would overwrite the other`;
  return new CheckpointError('InvalidArgument', message, { context: { name: one } });
}
