/**
 * Many deadlines share one sleep. Most are removed long before they are due, so a timer for each
 * would cost more than what it watches.
 */

import { CheckpointError, type Clock } from '../contract/index.ts';

export interface Deadline {
  /** On the scale of `nowMs`. */
  readonly dueMs: number;
  /** Called once, at `dueMs` or soon after, unless removed before. */
  onDue(): void;
}

/** Created once: ending a sleep must not cost a new error with a stack each time. */
const NOT_NEEDED = new CheckpointError('Aborted', 'there is nothing left to wait for');

export class Deadlines {
  readonly #clock: Clock;
  readonly #waiting = new Set<Deadline>();
  #sleep: AbortController | undefined;
  #wakeMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get nowMs(): number {
    return this.#clock.monotonicMs();
  }

  /** Adds the deadline. If it was added before, its present `dueMs` applies. */
  add(deadline: Deadline): void {
    this.#waiting.add(deadline);
    if (this.#sleep === undefined || deadline.dueMs < this.#wakeMs) this.#sleepUntil(deadline.dueMs);
  }

  /** Does nothing if the deadline was not added. */
  remove(deadline: Deadline): void {
    if (!this.#waiting.delete(deadline) || this.#waiting.size > 0) return;
    // A sleep keeps the process alive, so it ends with the last deadline. While other deadlines
    // wait, the sleep stays, even if it ends before they are due.
    this.#sleep?.abort(NOT_NEEDED);
    this.#sleep = undefined;
  }

  #sleepUntil(dueMs: number): void {
    this.#sleep?.abort(NOT_NEEDED);
    const sleep = new AbortController();
    this.#sleep = sleep;
    this.#wakeMs = dueMs;
    const wake = () => {
      if (this.#sleep !== sleep) return;
      this.#sleep = undefined;
      this.#wake();
    };
    const delayMs = Math.max(0, dueMs - this.nowMs); // it may be past by now
    this.#clock.sleep(delayMs, sleep.signal).then(wake, () => undefined);
  }

  #wake(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const deadline of this.#waiting) {
      if (deadline.dueMs > nowMs) continue;
      this.#waiting.delete(deadline);
      deadline.onDue();
    }
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { dueMs } of this.#waiting) nextMs = Math.min(nextMs, dueMs);
    if (this.#waiting.size > 0 && (this.#sleep === undefined || nextMs < this.#wakeMs))
      this.#sleepUntil(nextMs);
  }
}
