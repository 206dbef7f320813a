/** What all workers of a rendezvous agree on. */

import { checkOptions, type Rules, TIMER_MS_MAX, wholeNumber } from '@holdfast/core/contract';

export interface Policy {
  /** No world begins with fewer. 1 to `maxWorkers`. */
  readonly minWorkers: number;
  /** Further workers wait until one leaves. At most 1,024. */
  readonly maxWorkers: number;
  /**
   * How long a worker waits for the others, at the rendezvous and in each group call, in
   * milliseconds. It must be longer than any step and any save: workers that the others wait for
   * longer are expelled. 1 to 2^31 - 1.
   */
  readonly timeoutMs: number;
}

export const WORKERS_MAX = 1024;

/** `InvalidArgument` names the field that is out of range. */
export function checkPolicy(policy: Policy): void {
  checkOptions(policy, POLICY);
  wholeNumber(policy.minWorkers, WORKERS_MAX)('maxWorkers', policy.maxWorkers);
}

const POLICY: Rules<Policy> = {
  minWorkers: wholeNumber(1, WORKERS_MAX),
  maxWorkers: wholeNumber(1, WORKERS_MAX),
  timeoutMs: wholeNumber(1, TIMER_MS_MAX),
};
