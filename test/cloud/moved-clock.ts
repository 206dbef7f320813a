import { type Clock, systemClock } from '@holdfast/core';

/**
 * The system's clock, which a test may put forward. No test waits for a timeout, and a busy machine
 * causes none.
 */
export class MovedClock implements Clock {
  readonly #sleepers = new Set<{ readonly dueMs: number; readonly wake: () => void }>();
  #aheadMs = 0;

  nowMs(): number {
    return systemClock.nowMs();
  }

  monotonicMs(): number {
    return systemClock.monotonicMs() + this.#aheadMs;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const over = new AbortController();
    const { promise: woken, resolve: wake } = Promise.withResolvers<void>();
    const sleeper = { dueMs: this.monotonicMs() + ms, wake };
    this.#sleepers.add(sleeper);
    try {
      const either = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
      await Promise.race([systemClock.sleep(ms, either), woken]);
    } finally {
      this.#sleepers.delete(sleeper);
      over.abort();
    }
  }

  /** Wakes every sleeper that is due by then. */
  skip(ms: number): void {
    this.#aheadMs += ms;
    const nowMs = this.monotonicMs();
    for (const { dueMs, wake } of this.#sleepers) if (dueMs <= nowMs) wake();
  }
}
