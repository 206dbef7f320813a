/**
 * Adapts the number of requests in progress to a store that throttles. Each slowdown halves it.
 * Each series of successes adds one, up to the original limit.
 */

import type { LimitFunction } from 'p-limit';

/**
 * Small enough that a long transfer recovers, large enough that the limit is probed rarely and
 * causes few rejected requests.
 */
const SUCCESSES_PER_STEP = 25;

export class Pace {
  readonly #limits: readonly { readonly turns: LimitFunction; readonly max: number }[];
  #slowdowns = 0;
  #successes = 0;

  /** `turns`: with their concurrency at its maximum. */
  constructor(turns: readonly LimitFunction[]) {
    this.#limits = turns.map((each) => ({ turns: each, max: each.concurrency }));
  }

  /** Note it when a request is sent, and pass it to `throttled` if the request is throttled. */
  get slowdowns(): number {
    return this.#slowdowns;
  }

  /** Fewer requests are allowed than at the beginning, because the store throttles. */
  get isSlowed(): boolean {
    return this.#limits.some(({ turns, max }) => turns.concurrency < max);
  }

  /**
   * Ignores a request that was sent before the last slowdown: it says nothing about the pace since
   * then.
   */
  throttled(slowdownsWhenSent: number): void {
    if (slowdownsWhenSent !== this.#slowdowns) return;
    this.#slowdowns += 1;
    this.#successes = 0;
    for (const { turns } of this.#limits) turns.concurrency = Math.ceil(turns.concurrency / 2);
  }

  succeeded(): void {
    if (this.#slowdowns === 0) return;
    this.#successes += 1;
    if (this.#successes < SUCCESSES_PER_STEP) return;
    this.#successes = 0;
    for (const { turns, max } of this.#limits) {
      if (turns.concurrency < max) turns.concurrency += 1;
    }
  }
}
