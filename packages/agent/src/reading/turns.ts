/**
 * Reads that keep memory take turns. One whose readers stand still gives way to one that waits.
 */

import { type Clock, systemClock } from '@holdfast/core';

/** Readers that take nothing for so long lose their turn, if another read waits for one. */
export const STANDING_MS = 5000;
const LOOK_INTERVAL_MS = 1000;

export interface Standing {
  /** Since when no reader has taken anything of what is there; `undefined`: they do. */
  readonly standingSinceMs: number | undefined;
  /** Lets its readers end, and with the last of them the read. */
  cutOff(): void;
}

export class Turns<Read extends Standing> {
  readonly #max: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #having = new Set<Read>();
  /** In the order in which they came. */
  readonly #waiting = new Map<Read, () => void>();
  #looking: NodeJS.Timeout | undefined;

  constructor(max: number, clock: Pick<Clock, 'monotonicMs'> = systemClock) {
    this.#max = max;
    this.#clock = clock;
  }

  /** Resolves when the read may begin. Call `end` afterwards, or instead. */
  async begin(read: Read): Promise<void> {
    if (this.#having.size < this.#max) {
      this.#having.add(read);
      return;
    }
    await new Promise<void>((resolve) => {
      this.#waiting.set(read, resolve);
      this.#look();
    });
  }

  /** The turn goes to the next one. Repeating it does nothing. */
  end(read: Read): void {
    this.#waiting.get(read)?.();
    this.#waiting.delete(read);
    this.#having.delete(read);
    for (const [next, begin] of this.#waiting) {
      if (this.#having.size >= this.#max) break;
      this.#waiting.delete(next);
      this.#having.add(next);
      begin();
    }
  }

  #look(): void {
    const untilMs = this.#clock.monotonicMs() - STANDING_MS;
    const standing = [...this.#having].filter(
      ({ standingSinceMs }) => standingSinceMs !== undefined && standingSinceMs <= untilMs,
    );
    for (const read of standing.slice(0, this.#waiting.size)) read.cutOff();
    clearTimeout(this.#looking);
    if (this.#waiting.size > 0) this.#looking = setTimeout(() => this.#look(), LOOK_INTERVAL_MS).unref();
  }
}
