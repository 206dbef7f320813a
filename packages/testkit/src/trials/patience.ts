import { type Clock, isCheckpointError, type Random, repeatDelayMs } from '@holdfast/core/contract';

const TRIES_MAX_DEFAULT = 5;
const DELAYS = { delayMsBase: 100, delayMsMax: 10_000 };

export interface Patience {
  /** Tries of one call, 1 or more; default 5. */
  readonly triesMax?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal | undefined;
  /** Called before each repeat. */
  readonly onRepeat: () => void;
}

/**
 * Retries temporary failures, as the engine does: a busy store is not a broken one. `repeats`:
 * those before this try.
 */
export async function patiently<T>(
  { clock, random, signal, onRepeat, triesMax = TRIES_MAX_DEFAULT }: Patience,
  call: (repeats: number) => Promise<T>,
): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await call(repeats);
    } catch (error) {
      if (!isCheckpointError(error) || error.status !== 'temporary') throw error;
      if (repeats >= triesMax - 1) throw error;
      onRepeat();
      await clock.sleep(repeatDelayMs(error, repeats, { ...DELAYS, random }), signal);
    }
  }
}
