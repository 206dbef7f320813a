/** A timer this late was held up: its process was frozen, or did not get to its events. */
const FROZEN_MS = 1000;

export interface AwakeTimerOptions {
  readonly timeoutMs: number;
  /** Grows with all that arrives. While it grows, the wait is not over. */
  readonly heardBytes: () => number;
  readonly onEnd: () => void;
}

/**
 * Calls `onEnd` if `cancel` is not called within `timeoutMs` in which this process runs. When a
 * frozen process resumes, its timers fire before its sockets are read, although the answer may have
 * come long ago. So all that has arrived is handled first. If the wait was frozen, it then starts
 * again, because the other side may have been frozen as well.
 */
export class AwakeTimer {
  readonly #options: AwakeTimerOptions;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(options: AwakeTimerOptions) {
    this.#options = options;
    this.#start();
  }

  /** Safe to repeat. */
  cancel(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #start(): void {
    const { timeoutMs, onEnd } = this.#options;
    const dueMs = performance.now() + timeoutMs;
    this.#timer = setTimeout(() => {
      const wasFrozen = performance.now() - dueMs >= FROZEN_MS;
      this.#whenSilent(() => (wasFrozen ? this.#start() : onEnd()));
    }, timeoutMs);
  }

  #whenSilent(then: () => void): void {
    const heardBytes = this.#options.heardBytes();
    afterEvents(() => {
      if (this.#isOver) return;
      if (this.#options.heardBytes() > heardBytes) this.#whenSilent(then);
      else then();
    });
  }
}

/** Calls `then` when the event loop has read all sockets once. */
export function afterEvents(then: () => void): void {
  // The sockets are read between the first and the second at the latest.
  setImmediate(() => setImmediate(then));
}
