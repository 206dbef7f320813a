/** One of several copies stored one after the other, as a source for the engine. */

import { CheckpointError, type RandomSource, type Stage } from '@holdfast/core/contract';
import type { Copied } from './copy-sources.ts';

/** Fills `buffer` with the copies' bytes, starting at `offsetBytes`. */
export type ReadCopies = (offsetBytes: number, buffer: Uint8Array) => Promise<void>;

/**
 * The first `release` calls `giveBack`. Later reads are `InvalidArgument`, because the memory or
 * file may hold other bytes by then.
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
    // No other code can change a copy.
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
}

/** `InvalidArgument`: a staging can hold the copies of only one save at a time. */
export function stageStillHeld(): CheckpointError {
  return new CheckpointError(
    'InvalidArgument',
    'the staging still holds the copies of a save in progress; each saver needs its own staging',
  );
}
