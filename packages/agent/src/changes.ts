/** Waits for something that can only become true when a change is noted. */

import { systemClock } from '@holdfast/core';

export class Changes {
  readonly #checks = new Set<() => void>();

  note(): void {
    for (const check of [...this.#checks]) check();
  }

  /**
   * Resolves when it is true, at the time given by the monotonic clock, or as soon as the signal
   * fires.
   */
  async until(isTrue: () => boolean, untilMs: number, signal?: AbortSignal): Promise<void> {
    if (isTrue()) return;
    const enough = new AbortController();
    const check = () => isTrue() && enough.abort();
    this.#checks.add(check);
    const leftMs = Math.max(0, untilMs - systemClock.monotonicMs());
    const end = signal ? AbortSignal.any([signal, enough.signal]) : enough.signal;
    await systemClock.sleep(leftMs, end).catch(() => undefined);
    this.#checks.delete(check);
  }
}
