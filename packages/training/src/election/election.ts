/** Who of the trainers exports the model: one at a time, for a while. Having been elected is a hint, never a lock. */

import { type CallOptions, CheckpointError, isObjectKey, text, wholeNumber } from '@holdfast/core/contract';

/** Shortest and longest time that one can be elected for. */
export const BLOCK_MS_MIN = 1;
export const BLOCK_MS_MAX = 7 * 24 * 60 * 60_000;

export interface Election {
  /**
   * True: this trainer is to save the model, and for `blockMs` from this call on nobody else is told so. It may ask again: then the time of its
   * last call counts, also if that is shorter. False: another has it. Never waits for its turn.
   *
   * After a partition or a pause two may hold it at once, so each saves under a name of its own: see `saveModel`.
   * `blockMs`: whole milliseconds, 1 to 7 days. `trainerId`: a name for a directory, see `checkTrainerId`; every trainer has its own.
   * `InvalidArgument`: one of them is none. `TimedOut`: this trainer was elected, and heard of it `blockMs` after the call or
   * later, when others may be; ask again. An error never means that this trainer is elected.
   */
  requestSave(trainerId: string, blockMs: number, options?: CallOptions): Promise<boolean>;
}

/** Both; `InvalidArgument` says what is accepted. */
export function checkRequest(trainerId: string, blockMs: number): void {
  checkTrainerId(trainerId);
  wholeNumber(BLOCK_MS_MIN, BLOCK_MS_MAX)('blockMs', blockMs);
}

/**
 * Who is elected writes to a directory of this name, so the id is one segment of a path: 1 to 255 bytes of UTF-8 that do not begin with a
 * dot, without slashes, backslashes and control characters.
 */
export function checkTrainerId(trainerId: string): void {
  text('trainer id', trainerId);
  if (isObjectKey(trainerId) && !/^\.|[/\\]/.test(trainerId)) return;
  throw invalid(
    `trainer id ${JSON.stringify(trainerId)} is no name of a directory: it takes 1 to 255 bytes of UTF-8 that do not begin with a dot, without slashes, backslashes and control characters`,
  );
}

/** `TimedOut`: it was elected, and its time was over before it heard of it: to write a model now would be too late. */
export function toldTooLate(blockMs: number, cause?: unknown): CheckpointError {
  const message = `asked to be elected for ${blockMs} ms, which were over when the answer came`;
  return new CheckpointError('TimedOut', message, { cause });
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
