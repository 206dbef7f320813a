/** One of several copies that lie one after the other, as the engine reads it. */

import { CheckpointError, type RandomSource, type Stage } from '@holdfast/core/contract';
import type { Copied } from './copy-sources.ts';

/** Fills `buffer` with all copies' bytes from `offsetBytes` on. */
export type ReadCopies = (offsetBytes: number, buffer: Uint8Array) => Promise<void>;

/**
 * `giveBack` is called once. After that nothing is read any more, for the room may hold other bytes by then: `InvalidArgument`.
 */
export function stageOf(
  copied: readonly Copied[],
  read: ReadCopies,
  giveBack: () => void | Promise<void>,
): Stage {
  let released: Promise<void> | undefined;
  const readHeld: ReadCopies = async (offsetBytes, buffer) => {
    assertHeld(released === undefined);
    await read(offsetBytes, buffer);
  };
  return {
    copies: copied.map((copy) => ({
      sizeBytes: copy.sizeBytes,
      open: async () => {
        assertHeld(released === undefined);
        return copiedSource(copy, readHeld);
      },
    })),
    release: () => {
      released ??= Promise.resolve(giveBack());
      return released;
    },
  };
}

function assertHeld(isHeld: boolean): void {
  if (!isHeld) throw new CheckpointError('InvalidArgument', 'the stage was released: its copies are gone');
}

function copiedSource({ startBytes, sizeBytes, mode, mtimeMs }: Copied, read: ReadCopies): RandomSource {
  return {
    sizeBytes,
    mode,
    mtimeMs,
    readInto: (offsetBytes, buffer) => read(startBytes + offsetBytes, buffer),
    // Nobody else reaches a copy.
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
}

/** `InvalidArgument`: a staging holds one stage at a time. */
export function stageStillHeld(): CheckpointError {
  return new CheckpointError(
    'InvalidArgument',
    'the staging still holds the copies of a save that is under way; each saver takes one of its own',
  );
}
