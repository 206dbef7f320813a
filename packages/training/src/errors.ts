/**
 * Errors by which a step, a state or a coordinator controls the loop. Any other error ends this
 * worker. `instanceof` works across two copies of this package, as `isCheckpointError` does.
 */

import { isCheckpointError } from '@holdfast/core/contract';

/** A registered symbol: it is the same in every copy of the package. */
const KIND = Symbol.for('holdfast.training-error');

/** As `instanceof`, for classes of this file in any copy of the package. */
function isOfKind(this: { readonly [KIND]: string }, value: unknown): boolean {
  // A class derived from these has no kind of its own.
  if (!Object.hasOwn(this, KIND)) return Function.prototype[Symbol.hasInstance].call(this, value);
  return typeof value === 'object' && value !== null && KIND in value && value[KIND] === this[KIND];
}

/** A retry may succeed: the loop restores the last snapshot and the workers meet again. */
export class RecoverableError extends Error {
  static readonly [KIND]: string = 'RecoverableError';
  static override readonly [Symbol.hasInstance] = isOfKind;
  override readonly name = 'RecoverableError';
  readonly [KIND] = 'RecoverableError';
}

/** A retry cannot help: this worker ends, even if the error looks transient. */
export class NonRetryableException extends Error {
  static readonly [KIND]: string = 'NonRetryableException';
  static override readonly [Symbol.hasInstance] = isOfKind;
  override readonly name = 'NonRetryableException';
  readonly [KIND] = 'NonRetryableException';
}

/** Training is over for this worker, without an error. */
export class StopException extends Error {
  static readonly [KIND]: string = 'StopException';
  static override readonly [Symbol.hasInstance] = isOfKind;
  override readonly name = 'StopException';
  readonly [KIND] = 'StopException';
}

/** Thrown by a step that has no data left. */
export class StopIteration extends Error {
  static readonly [KIND]: string = 'StopIteration';
  static override readonly [Symbol.hasInstance] = isOfKind;
  override readonly name = 'StopIteration';
  readonly [KIND] = 'StopIteration';
}

/** A later try may succeed: a failure of a save that costs no step. */
export function mayPass(error: unknown): error is Error {
  return error instanceof RecoverableError || (isCheckpointError(error) && error.status !== 'permanent');
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
