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

/**
 * A request whose answer comes byte by byte is not silent. It may take 30 times as long as silence,
 * and the time of its bytes at a rate that only a broken connection is below.
 */
const LONGEST_STALLS = 30;
const BYTES_PER_SECOND_MIN = 16 * 1024;

/** The longest time of a request with this many bytes of payload. */
export function longestRequestMs(stallMs: number, payloadBytes: number): number {
  return LONGEST_STALLS * stallMs + (1000 * payloadBytes) / BYTES_PER_SECOND_MIN;
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
