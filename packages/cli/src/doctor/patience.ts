import { type Clock, isCheckpointError, type Random } from '@holdfast/core/contract';

const TRIES_MAX = 5;
const DELAY_MS_BASE = 100;

export interface Patience {
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Called before each repeat. */
  readonly onRepeat: () => void;
}

/**
 * Retries temporary failures, as the engine does: a busy store is not a broken one. `attempt`
 * counts from 0.
 */
export async function patiently<T>(
  { clock, random, signal, onRepeat }: Patience,
  call: (attempt: number) => Promise<T>,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await call(attempt);
    } catch (error) {
      const mayPass = isCheckpointError(error) && error.status === 'temporary';
      if (!mayPass || attempt === TRIES_MAX - 1) throw error;
      onRepeat();
      await clock.sleep(DELAY_MS_BASE * 2 ** attempt * (0.5 + random.fraction() / 2), signal);
    }
  }
}
