/** Watches how long a save takes, and how long it makes no progress. */

import type { Clock } from '@holdfast/core/contract';

/**
 * Checks per timeout. A pause that starts and ends between two checks counts as silence, so check
 * often.
 */
const LOOKS_PER_TIMEOUT = 8;

export interface SaveWatchOptions {
  readonly clock: Clock;
  /** On the monotonic clock. `null`: no limit. */
  readonly dueMs: number | null;
  readonly stallTimeoutMs: number;
  /** When the save last made progress, on the monotonic clock. */
  heardMs(): number;
  /** True if nothing is sent because the throttle is paused, so no progress is expected. */
  isPaused(): boolean;
  /** Called once. */
  onLate(): void;
  /** Called after each `stallTimeoutMs` without progress. */
  onStall(): void;
}

/** Watches until the signal fires, and keeps no timer after that. */
export async function watchSave(options: SaveWatchOptions, signal: AbortSignal): Promise<void> {
  const { clock, stallTimeoutMs, onStall } = options;
  const stepMs = Math.max(1, stallTimeoutMs / LOOKS_PER_TIMEOUT);
  let heardMs = options.heardMs();
  let [silentMs, warnAtMs] = [0, stallTimeoutMs];
  let dueMs = options.dueMs ?? Number.POSITIVE_INFINITY;
  while (!signal.aborted) {
    if (clock.monotonicMs() >= dueMs) {
      dueMs = Number.POSITIVE_INFINITY;
      options.onLate();
    }
    const fromMs = clock.monotonicMs();
    const sleepMs = Math.max(0, Math.min(stepMs, warnAtMs - silentMs, dueMs - fromMs));
    // Only the signal can make this reject.
    await clock.sleep(sleepMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    const lastMs = options.heardMs();
    if (lastMs !== heardMs) {
      heardMs = lastMs;
      [silentMs, warnAtMs] = [Math.min(clock.monotonicMs() - lastMs, stepMs), stallTimeoutMs];
    } else if (!options.isPaused()) {
      // A timer that fires late means that this process was busy, so count only the planned sleep.
      silentMs += Math.min(sleepMs, clock.monotonicMs() - fromMs);
    }
    if (silentMs < warnAtMs) continue;
    warnAtMs += stallTimeoutMs;
    onStall();
  }
}
