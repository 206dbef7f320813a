import type { Settings } from '../contract/index.ts';
import type { Deadlines } from './deadlines.ts';
import type { MemoryInUse } from './memory.ts';
import type { TransferOptions, TransferParts } from './options.ts';
import type { ReadTimes } from './read-times.ts';
import type { RetryBudget, RetryPolicy } from './retry.ts';

/**
 * A request that was stopped for silence may only have been slow. Each further try gets twice the
 * time, up to 32 times.
 */
const STALL_DOUBLINGS_MAX = 5;

/** What all transfers of one `Transfers` share. */
export interface Shared extends Omit<TransferParts, 'memory'>, MemoryInUse {
  readonly retryBudget: RetryBudget;
  readonly deadlines: Deadlines;
  readonly readTimes: ReadTimes;
  /** Runs a limited number of stream producers at once; the others wait. */
  readonly streamSeats: (fill: () => Promise<void>) => Promise<void>;
  readonly active: Set<ActiveTransfer>;
  /** Bytes that reader streams have read ahead. */
  aheadBytes: number;
  isClosed: boolean;
}

export interface ActiveTransfer {
  readonly finished: Promise<void>;
  letGo(error: unknown): void;
}

export function stallTimeoutMs(settings: Settings, repeats: number): number {
  return settings.stallTimeoutMs * 2 ** Math.min(repeats, STALL_DOUBLINGS_MAX);
}

export function retryPolicy(
  shared: Shared,
  what: string,
  caller: Pick<TransferOptions, 'signal' | 'onRetry'>,
): RetryPolicy {
  const { clock, random, logger, retryBudget: budget, settings } = shared;
  const { retryCountMax: countMax, retryTimeoutMs: timeoutMs } = settings;
  const { retryDelayMsBase: delayMsBase, retryDelayMsMax: delayMsMax } = settings;
  const onRetry = (detail: string) => {
    logger.log('info', detail);
    caller.onRetry?.(detail);
  };
  const limits = { countMax, timeoutMs, delayMsBase, delayMsMax };
  return { what, ...limits, clock, random, budget, signal: caller.signal, onRetry };
}
