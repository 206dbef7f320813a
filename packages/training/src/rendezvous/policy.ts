/** What all workers of a rendezvous agree on. */

import { checkRange, TIMER_MS_MAX } from '../check-range.ts';

export interface Policy {
  /** With fewer no world begins. 1 to `maxWorkers`. */
  readonly minWorkers: number;
  /** More than these wait until somebody leaves. At most 1,024. */
  readonly maxWorkers: number;
  /** How long anybody waits for anybody: it has to be longer than any step and any save. 1 to 2^31 - 1. */
  readonly timeoutMs: number;
}

export const WORKERS_MAX = 1024;

/** `InvalidArgument` names what is out of range. */
export function checkPolicy({ minWorkers, maxWorkers, timeoutMs }: Policy): void {
  checkRange('minWorkers', minWorkers, 1, WORKERS_MAX);
  checkRange('maxWorkers', maxWorkers, minWorkers, WORKERS_MAX);
  checkRange('timeoutMs', timeoutMs, 1, TIMER_MS_MAX);
}
