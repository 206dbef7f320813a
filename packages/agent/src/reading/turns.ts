/**
 * Reads that keep memory take turns. One whose readers stand still gives way to one that waits.
 */

import { type Clock, systemClock } from '@holdfast/core';

/** Readers that take nothing for so long lose their turn, if another read waits for one. */
export const STANDING_MS = 2000;
const LOOK_INTERVAL_MS = 500;

export interface Standing {
  /** The memory that it may take. */
  readonly sizeBytesMax: number;
  /** Since when no reader has taken anything of what is there; `undefined`: they do. */
  readonly standingSinceMs: number | undefined;
  /** Lets its readers end, and with the last of them the read. */
  cutOff(): void;
}

export class Turns<Read extends Standing> {
  readonly #bytesMax: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #having = new Set<Read>();
  /** In the order in which they came. */
  readonly #waiting = new Map<Read, () => void>();
  #looking: NodeJS.Timeout | undefined;

  /**
   * `bytesMax`: for all that have a turn. Two have one in any case, so one that is slow does not
   * stop all others.
   */
  constructor(bytesMax: number, clock: Pick<Clock, 'monotonicMs'> = systemClock) {
    this.#bytesMax = bytesMax;
    this.#clock = clock;
  }

  /** Resolves when the read may begin. Call `end` afterwards, or instead. */
  async begin(read: Read): Promise<void> {
    if (this.#waiting.size === 0 && this.#hasRoomFor(read)) {
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
      if (!this.#hasRoomFor(next)) break;
      this.#waiting.delete(next);
      this.#having.add(next);
      begin();
    }
  }

  #hasRoomFor({ sizeBytesMax }: Read): boolean {
    const takenBytes = [...this.#having].reduce((sum, having) => sum + having.sizeBytesMax, 0);
    return this.#having.size < 2 || takenBytes + sizeBytesMax <= this.#bytesMax;
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
