/** Watches the time that a save takes, and for how long nothing was heard of it. */

import type { Clock } from '@holdfast/core/contract';

/** A pause that begins and ends between two looks is taken for silence: so many looks in one timeout. */
const LOOKS_PER_TIMEOUT = 8;

export interface SaveWatchOptions {
  readonly clock: Clock;
  /** On the monotonic clock. `null`: it may take as long as it wants. */
  readonly dueMs: number | null;
  readonly stallTimeoutMs: number;
  /** When the save last got on, on the monotonic clock. */
  heardMs(): number;
  /** Nothing is to be heard, for nothing is to be sent. */
  isPaused(): boolean;
  /** Called once. */
  onLate(): void;
  /** Called after each `stallTimeoutMs` of silence. */
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
    // It ends by the signal alone.
    await clock.sleep(sleepMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    const lastMs = options.heardMs();
    if (lastMs !== heardMs) {
      heardMs = lastMs;
      [silentMs, warnAtMs] = [Math.min(clock.monotonicMs() - lastMs, stepMs), stallTimeoutMs];
    } else if (!options.isPaused()) {
      // Whoever wakes late was busy himself, with a step that let nothing through: that is not the silence of the save.
      silentMs += Math.min(sleepMs, clock.monotonicMs() - fromMs);
    }
    if (silentMs < warnAtMs) continue;
    warnAtMs += stallTimeoutMs;
    onStall();
  }
}
