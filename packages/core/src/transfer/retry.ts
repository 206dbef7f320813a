/**
 * Retries failed calls for a while: with full jitter, a limit for each call, and one budget for all
 * calls together.
 */

import {
  CheckpointError,
  type Clock,
  isCheckpointError,
  type RepeatDelays,
  repeatDelayMs,
  throwIfAborted,
} from '../contract/index.ts';

/**
 * Part of a repeat that each success returns to the budget. A store that fails less than one call
 * in six never empties it.
 */
const REPEATS_PER_SUCCESS = 0.2;
export interface RetryPolicy extends RepeatDelays {
  /** Name of the operation, for messages: "part 3 of model.bin". */
  readonly what: string;
  /** Repeats after the first try. */
  readonly countMax: number;
  /** Counted from the first failure. The last try is made when it has passed. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly budget?: RetryBudget | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called before the delay with the reason, as text. */
  readonly onRetry?: ((detail: string) => void) | undefined;
}

/**
 * A bucket of repeats, shared by all calls to one store, so that many failing calls do not flood
 * it. It starts full. Each repeat takes one out, and each success returns a fifth of one. While it
 * is empty, each repeat waits for the longest delay.
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

  /** False: the bucket is empty. */
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
 * Calls `operation` until it succeeds, at most `countMax + 1` times. Only errors of status
 * `temporary` are retried, after `repeatDelayMs`. When the count or the time is used up, the last
 * error is thrown with status `exhausted`; its message says how often and how long it was tried.
 * `Aborted` as soon as the signal fires, also while waiting.
 */
export async function retrying<T>(
  operation: (repeats: number) => Promise<T>,
  policy: RetryPolicy,
): Promise<T> {
  let failedAtMs: number | undefined;
  let last: CheckpointError | undefined;
  for (let repeats = 0; ; repeats += 1) {
    try {
      throwIfAborted(policy.signal);
      const result = await operation(repeats);
      policy.budget?.succeeded();
      return result;
    } catch (error) {
      if (!isCheckpointError(error) || error.status !== 'temporary') throw withLastTry(error, last);
      throwIfAborted(policy.signal);
      last = error;
      failedAtMs ??= policy.clock.monotonicMs();
      await prepareRepeat(error, { repeats, failedAtMs }, policy);
    }
  }
}

async function prepareRepeat(
  error: CheckpointError,
  { repeats, failedAtMs }: { readonly repeats: number; readonly failedAtMs: number },
  policy: RetryPolicy,
): Promise<void> {
  const tries = repeats + 1;
  const passedMs = policy.clock.monotonicMs() - failedAtMs;
  if (repeats >= policy.countMax || passedMs >= policy.timeoutMs) {
    const often = `tried ${tries} ${tries === 1 ? 'time' : 'times'}`;
    const long = passedMs < 1000 ? '' : ` in ${Math.round(passedMs / 1000)} s`;
    throw exhausted(error, `${policy.what}: ${often}${long}`);
  }
  const mayHurry = policy.budget?.take() ?? true;
  const wantedMs = mayHurry ? repeatDelayMs(error, repeats, policy) : policy.delayMsMax;
  const delayMs = Math.min(wantedMs, policy.timeoutMs - passedMs);
  const next = `try ${tries + 1} in ${Math.round(delayMs)} ms`;
  policy.onRetry?.(`${policy.what}: ${error.code}: ${error.message}; ${next}`);
  await pauseBeforeRepeat(error, delayMs, policy);
}

/**
 * Waits. If time runs out meanwhile (`TimedOut`), the message includes the error of the last try.
 */
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

/**
 * A try that runs until the deadline does not show what was wrong. The error of the try before it
 * may.
 */
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
