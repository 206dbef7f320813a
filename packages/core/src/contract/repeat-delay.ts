import type { Random } from './components.ts';
import type { CheckpointError } from './errors.ts';

/** The delay after `Throttled` is longer than after other errors: 500 ms for a base of 100 ms. */
const THROTTLED_DELAY_FACTOR = 5;

export interface RepeatDelays {
  readonly delayMsBase: number;
  readonly delayMsMax: number;
  readonly random: Random;
}

/**
 * Delay before the n-th repeat (from 0): a random part of `delayMsBase` * 2^n, five times that
 * after `Throttled`. A delay that the store asked for is added. Never above `delayMsMax`.
 */
export function repeatDelayMs(
  error: CheckpointError | undefined,
  repeats: number,
  { delayMsBase, delayMsMax, random }: RepeatDelays,
): number {
  const factor = error?.code === 'Throttled' ? THROTTLED_DELAY_FACTOR : 1;
  const jitterMs =
    random.fraction() * Math.min(delayMsMax, factor * delayMsBase * 2 ** Math.min(repeats, 30));
  return Math.min(delayMsMax, (error?.retryAfterMs ?? 0) + jitterMs);
}
