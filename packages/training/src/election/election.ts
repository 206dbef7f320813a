/**
 * Elects the trainer that exports the model: one at a time, for a limited time. Being elected is a
 * hint, never a lock.
 */

import { type CallOptions, CheckpointError, isObjectKey, text, wholeNumber } from '@holdfast/core/contract';

/** Shortest and longest time that a trainer can be elected for. */
export const BLOCK_MS_MIN = 1;
export const BLOCK_MS_MAX = 7 * 24 * 60 * 60_000;

export interface Election {
  /**
   * True: this trainer should save the model, and no other trainer is elected for `blockMs` from
   * this call. It may ask again: `blockMs` of its last call then counts, even if that time ends
   * earlier. False: another trainer is elected. Does not wait for the end of its time.
   *
   * After a partition or a pause two trainers may be elected at once, so each saves under its own
   * name: see `saveModel`.
   *
   * `blockMs`: whole milliseconds, 1 to 7 days. `trainerId`: a directory name that is unique to
   * this trainer; see `checkTrainerId`.
   *
   * `InvalidArgument`: one of the two is not valid. `TimedOut`: this trainer was elected, but the
   * answer came `blockMs` after the call or later, when another trainer may be elected; ask again.
   * After any error, treat this trainer as not elected.
   */
  requestSave(trainerId: string, blockMs: number, options?: CallOptions): Promise<boolean>;
}

/** Checks both arguments; `InvalidArgument` says what is accepted. */
export function checkRequest(trainerId: string, blockMs: number): void {
  checkTrainerId(trainerId);
  wholeNumber(BLOCK_MS_MIN, BLOCK_MS_MAX)('blockMs', blockMs);
}

/**
 * Checks an id. The elected trainer writes to a directory of this name, so the id is one path
 * segment: 1 to 255 bytes of UTF-8 that do not begin with a dot, without slashes, backslashes and
 * control characters.
 */
export function checkTrainerId(trainerId: string): void {
  text('trainer id', trainerId);
  if (isObjectKey(trainerId) && !/^\.|[/\\]/.test(trainerId)) return;
  throw invalid(
    `trainer id ${JSON.stringify(trainerId)} is not a directory name: it takes 1 to 255 bytes of UTF-8, without slashes, backslashes, control characters and a leading dot`,
  );
}

/**
 * `TimedOut`: the trainer was elected, but its time was over when the answer came. Writing a model
 * now would be too late.
 */
export function toldTooLate(blockMs: number, cause?: unknown): CheckpointError {
  const message = `asked to be elected for ${blockMs} ms, which had passed before the answer arrived`;
  return new CheckpointError('TimedOut', message, { cause });
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
