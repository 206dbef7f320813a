/** Repeating what failed for a while: full jitter, a limit of its own for each call, and one budget for all calls together. */

import {
  CheckpointError,
  type Clock,
  isCheckpointError,
  type Random,
  throwIfAborted,
} from '../contract/index.ts';

/** A success gives back so much of a repeat: a store that fails less than one call in six can be used without end. */
const REPEATS_PER_SUCCESS = 0.2;
/** A store that throttles is left alone for longer than one that failed: 500 ms where 100 is the base. */
const THROTTLED_DELAY_FACTOR = 5;

export interface RetryPolicy {
  /** What is tried, for messages: "part 3 of model.bin". */
  readonly what: string;
  /** Repeats after the first try. */
  readonly countMax: number;
  /** Counted from the first failure. The last try is made when it is over. */
  readonly timeoutMs: number;
  readonly delayMsBase: number;
  readonly delayMsMax: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly budget?: RetryBudget | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Told before the delay, in words. */
  readonly onRetry?: ((detail: string) => void) | undefined;
}

/**
 * A bucket of repeats, shared by all calls to one store, so that many calls that fail together do not become a storm. It starts full;
 * each repeat takes one out, each success puts a fifth of one back. While it is empty each repeat waits for the longest delay.
 */
export class RetryBudget {
  readonly repeatsMax: number;
  #repeats: number;

  constructor(repeatsMax: number) {
    this.repeatsMax = repeatsMax;
    this.#repeats = repeatsMax;
  }

  get repeats(): number {
    return this.#repeats;
  }

  /** False: none left. */
  take(): boolean {
    if (this.#repeats < 1) return false;
    this.#repeats -= 1;
    return true;
  }

  succeeded(): void {
    this.#repeats = Math.min(this.repeatsMax, this.#repeats + REPEATS_PER_SUCCESS);
  }
}

/**
 * Calls `operation` until it succeeds, at most `countMax + 1` times. Only errors of status `temporary` are repeated, after
 * `repeatDelayMs`. When count or time are used up the last error is thrown with status `exhausted`, and its message says how often and how
 * long it was tried. `Aborted` as soon as the signal fires, also while waiting.
 */
export async function retrying<T>(
  operation: (attempt: number) => Promise<T>,
  policy: RetryPolicy,
): Promise<T> {
  let failedAtMs: number | undefined;
  let last: CheckpointError | undefined;
  for (let attempt = 0; ; attempt += 1) {
    try {
      throwIfAborted(policy.signal);
      const result = await operation(attempt);
      policy.budget?.succeeded();
      return result;
    } catch (error) {
      if (!isCheckpointError(error) || error.status !== 'temporary') throw withLastTry(error, last);
      throwIfAborted(policy.signal);
      last = error;
      failedAtMs ??= policy.clock.monotonicMs();
      await prepareRepeat(error, { attempt, failedAtMs }, policy);
    }
  }
}

/**
 * How long to wait before the n-th repeat (from 0): a random part of `delayMsBase` * 2^n, five times that after `Throttled`; where the
 * store has said how long, so much more. Never above `delayMsMax`.
 */
export function repeatDelayMs(
  error: CheckpointError | undefined,
  attempt: number,
  { delayMsBase, delayMsMax, random }: Pick<RetryPolicy, 'delayMsBase' | 'delayMsMax' | 'random'>,
): number {
  const factor = error?.code === 'Throttled' ? THROTTLED_DELAY_FACTOR : 1;
  const jitterMs =
    random.fraction() * Math.min(delayMsMax, factor * delayMsBase * 2 ** Math.min(attempt, 30));
  return Math.min(delayMsMax, (error?.retryAfterMs ?? 0) + jitterMs);
}

async function prepareRepeat(
  error: CheckpointError,
  { attempt, failedAtMs }: { readonly attempt: number; readonly failedAtMs: number },
  policy: RetryPolicy,
): Promise<void> {
  const tries = attempt + 1;
  const passedMs = policy.clock.monotonicMs() - failedAtMs;
  if (attempt >= policy.countMax || passedMs >= policy.timeoutMs) {
    const often = `tried ${tries} ${tries === 1 ? 'time' : 'times'}`;
    const long = passedMs < 1000 ? '' : ` in ${Math.round(passedMs / 1000)} s`;
    throw exhausted(error, `${policy.what}: ${often}${long}`);
  }
  const mayHurry = policy.budget?.take() ?? true;
  const wantedMs = mayHurry ? repeatDelayMs(error, attempt, policy) : policy.delayMsMax;
  const delayMs = Math.min(wantedMs, policy.timeoutMs - passedMs);
  const next = `try ${tries + 1} in ${Math.round(delayMs)} ms`;
  policy.onRetry?.(`${policy.what}: ${error.code}: ${error.message}; ${next}`);
  await pauseBeforeRepeat(error, delayMs, policy);
}

/** Waits. If time runs out meanwhile (`TimedOut`), the message says what the last try had failed with. */
export async function pauseBeforeRepeat(
  error: CheckpointError | undefined,
  delayMs: number,
  { clock, signal }: Pick<RetryPolicy, 'clock' | 'signal'>,
): Promise<void> {
  try {
    await clock.sleep(delayMs, signal);
  } catch (stopped) {
    throw withLastTry(stopped, error);
  }
}

/** A try that takes all the time that is left says nothing of what was wrong; the one before may. */
function withLastTry(stopped: unknown, last: CheckpointError | undefined): unknown {
  if (last === undefined || !isCheckpointError(stopped, 'TimedOut')) return stopped;
  return new CheckpointError('TimedOut', `${stopped.message}; the last try: ${last.message}`, {
    context: last.context,
    cause: last,
  });
}

function exhausted(error: CheckpointError, what: string): CheckpointError {
  return new CheckpointError(error.code, `${what}: ${error.message}`, {
    context: error.context,
    cause: error,
    status: 'exhausted',
  });
}
