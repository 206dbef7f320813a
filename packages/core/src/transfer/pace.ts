/**
 * How many requests are under way once a store has said that they are too many: half as many, and from then on one more after every so
 * many successes, up to what was allowed in the first place.
 */

import type { LimitFunction } from 'p-limit';

/** Few enough that a long transfer recovers, so many that finding the limit again and again costs few refusals. */
const SUCCESSES_PER_STEP = 25;

export class Pace {
  readonly #limits: readonly { readonly turns: LimitFunction; readonly max: number }[];
  #slowdowns = 0;
  #successes = 0;

  /** `turns`: with as many at once as there may ever be. */
  constructor(turns: readonly LimitFunction[]) {
    this.#limits = turns.map((each) => ({ turns: each, max: each.concurrency }));
  }

  /** To be noted when a request is sent, and given back should the request be throttled. */
  get slowdowns(): number {
    return this.#slowdowns;
  }

  /** The store bears fewer requests than are allowed. */
  get isSlowed(): boolean {
    return this.#limits.some(({ turns, max }) => turns.concurrency < max);
  }

  /** What was sent before the last slowdown says nothing about the pace since then. */
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
