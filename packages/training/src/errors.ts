/**
 * Errors by which a step, a state or a coordinator controls the loop. Any other error ends this
 * worker.
 */

import { isCheckpointError } from '@holdfast/core/contract';

/** A retry may succeed: the loop restores the last snapshot and the workers meet again. */
export class RecoverableError extends Error {
  override readonly name = 'RecoverableError';
}

/** A retry cannot help: this worker ends, even if the error looks transient. */
export class NonRetryableException extends Error {
  override readonly name = 'NonRetryableException';
}

/** Training is over for this worker, without an error. */
export class StopException extends Error {
  override readonly name = 'StopException';
}

/** Thrown by a step that has no data left. */
export class StopIteration extends Error {
  override readonly name = 'StopIteration';
}

/** A later try may succeed: a failure of a save that costs no step. */
export function mayPass(error: unknown): error is Error {
  return error instanceof RecoverableError || (isCheckpointError(error) && error.status !== 'permanent');
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
