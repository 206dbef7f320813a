/**
 * A token bucket that may be overdrawn. A request is admitted as soon as nothing is owed, and then
 * owes all its bytes. So a part may be larger than the bucket, and the first one of a save need not
 * wait.
 */

import {
  abortError,
  abortSignal,
  aClock,
  CheckpointError,
  type Clock,
  checkOptions,
  optional,
  orNull,
  type Rule,
  rule,
  shown,
  systemClock,
  type Throttle,
  throwIfAborted,
} from '../contract/index.ts';

/**
 * Unused time of at most this length can be used later. Timers are late by a millisecond or more,
 * which is longer than a small file takes.
 */
const CREDIT_MS = 100;
/**
 * A sleep keeps the process alive while requests wait, even if only `resume` can admit them. Timers
 * last 24 days at most.
 */
const SLEEP_MS_MAX = 60_000;

/** Created once: ending a sleep must not cost a new error with a stack each time. */
const NOT_NEEDED = new CheckpointError('Aborted', 'there is nothing left to wait for');

/**
 * For `CheckpointManagerOptions.throttle`, of one manager or of several. `bytesPerSecondMax`:
 * default `null`, no limit.
 */
export function createThrottle(
  options: {
    readonly bytesPerSecondMax?: number | null | undefined;
    readonly clock?: Clock | undefined;
  } = {},
): Throttle {
  checkOptions(options, { bytesPerSecondMax: optional(orNull(limit)), clock: optional(aClock) });
  return new TokenBucket(options.bytesPerSecondMax ?? null, options.clock ?? systemClock);
}

const limit: Rule = (_, value) => {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return;
  throw new CheckpointError(
    'InvalidArgument',
    `the limit is ${shown(value)} bytes a second; it takes a whole number from 1, or null for none; pause() stops sending`,
  );
};
const sentBytes = rule((value) => Number.isSafeInteger(value), 'a whole number of bytes');
const bytesToSend = rule(
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  'a whole number of bytes from 0 on',
);

interface Waiter {
  readonly sizeBytes: number;
  readonly grant: () => void;
}

class TokenBucket implements Throttle {
  readonly #clock: Clock;
  readonly #waiting: Waiter[] = [];
  #bytesPerSecondMax: number | null;
  #isPaused = false;
  /** As of `#asOfMs`. Below 0: so many bytes are free. 0 if there is no limit. */
  #owedBytes = 0;
  #asOfMs: number;
  #sleep: AbortController | undefined;

  constructor(bytesPerSecondMax: number | null, clock: Clock) {
    this.#bytesPerSecondMax = bytesPerSecondMax;
    this.#clock = clock;
    this.#asOfMs = clock.monotonicMs();
  }

  get bytesPerSecondMax(): number | null {
    return this.#bytesPerSecondMax;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  setBytesPerSecondMax(bytesPerSecondMax: number | null): void {
    orNull(limit)('bytesPerSecondMax', bytesPerSecondMax);
    this.#settle(); // bytes owed until now are settled at the old rate
    this.#bytesPerSecondMax = bytesPerSecondMax;
    this.#settle();
    this.#serve();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#serve();
  }

  async take(sizeBytes: number, signal?: AbortSignal): Promise<void> {
    bytesToSend('sizeBytes', sizeBytes);
    optional(abortSignal)('signal', signal);
    throwIfAborted(signal);
    if (this.#waiting.length === 0 && this.#isOpen()) this.charge(sizeBytes);
    else await this.#wait(sizeBytes, signal);
  }

  charge(sizeBytes: number): void {
    sentBytes('sizeBytes', sizeBytes);
    if (this.#bytesPerSecondMax === null) return;
    this.#settle();
    this.#owedBytes += sizeBytes;
    if (sizeBytes < 0) this.#serve();
  }

  #wait(sizeBytes: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        if (this.#waiting.length === 0) this.#endSleep();
        reject(abortError(signal as AbortSignal));
      };
      const grant = () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      };
      const waiter = { sizeBytes, grant };
      signal?.addEventListener('abort', stop, { once: true });
      this.#waiting.push(waiter);
      if (this.#sleep === undefined) this.#sleepOn();
    });
  }

  #isOpen(): boolean {
    this.#settle();
    return !this.#isPaused && this.#owedBytes < 1; // rounding may leave less than a byte
  }

  /** Updates the account to the present time. */
  #settle(): void {
    const nowMs = this.#clock.monotonicMs();
    const bytesPerMs = (this.#bytesPerSecondMax ?? 0) / 1000;
    const paid = this.#owedBytes - bytesPerMs * (nowMs - this.#asOfMs);
    this.#owedBytes = this.#bytesPerSecondMax === null ? 0 : Math.max(paid, -bytesPerMs * CREDIT_MS);
    this.#asOfMs = nowMs;
  }

  #serve(): void {
    this.#endSleep();
    while (this.#waiting.length > 0 && this.#isOpen()) {
      const { sizeBytes, grant } = this.#waiting.shift() as Waiter;
      this.charge(sizeBytes);
      grant();
    }
    if (this.#waiting.length > 0) this.#sleepOn();
  }

  #sleepOn(): void {
    const owedMs =
      this.#isPaused || this.#bytesPerSecondMax === null
        ? SLEEP_MS_MAX
        : (this.#owedBytes * 1000) / this.#bytesPerSecondMax;
    const sleep = new AbortController();
    this.#sleep = sleep;
    this.#clock.sleep(Math.min(owedMs, SLEEP_MS_MAX), sleep.signal).then(
      () => {
        if (this.#sleep === sleep) this.#serve();
      },
      () => undefined, // the sleep was ended by `#endSleep`
    );
  }

  #endSleep(): void {
    this.#sleep?.abort(NOT_NEEDED);
    this.#sleep = undefined;
  }
}
