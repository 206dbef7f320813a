/** What all workers of a rendezvous agree on. */

import { CheckpointError } from '@holdfast/core/contract';

export interface Policy {
  /** With fewer no world begins. 1 to `maxWorkers`. */
  readonly minWorkers: number;
  /** More than these wait until somebody leaves. At most 1,024. */
  readonly maxWorkers: number;
  /** How long anybody waits for anybody: it has to be longer than any step and any save. 1 to 2^31 - 1. */
  readonly timeoutMs: number;
}

export const WORKERS_MAX = 1024;
/** setTimeout takes no more. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** `InvalidArgument` names what is out of range. */
export function checkPolicy({ minWorkers, maxWorkers, timeoutMs }: Policy): void {
  checkRange('minWorkers', minWorkers, 1, WORKERS_MAX);
  checkRange('maxWorkers', maxWorkers, minWorkers, WORKERS_MAX);
  checkRange('timeoutMs', timeoutMs, 1, TIMER_MS_MAX);
}

/** `InvalidArgument` if it is no whole number from `min` to `max`, both included. */
export function checkRange(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  throw new CheckpointError(
    'InvalidArgument',
    `${name} ${value}: it is to be a whole number from ${min} to ${max}`,
  );
}
