/**
 * Handles the notice that a machine will be taken away: what to finish, until when, and the report.
 */

import { constants } from 'node:os';
import { isMainThread } from 'node:worker_threads';
import {
  aClock,
  aLogger,
  CheckpointError,
  type Clock,
  checkOptions,
  duration,
  having,
  type Logger,
  listOf,
  optional,
  type Rules,
  rule,
  safeLogger,
  systemClock,
  TIMER_MS_MAX,
} from '@holdfast/core/contract';
import { processWarnings } from '../process-warnings.ts';
import { secondsText } from './in-flight-text.ts';
import {
  type Loss,
  lossByError,
  lossInFlight,
  type PreemptionReport,
  reportOf,
} from './preemption-report.ts';
import type { Saver } from './saver.ts';

/**
 * If there is nothing else to wait for, the report still waits for the store to name the newest
 * durable version, but only until this long after the notice.
 */
const LATEST_TIMEOUT_MS = 2000;

export interface PreemptionOptions {
  readonly saver: Saver;
  /**
   * Time from a notice until the process is killed, minus what it needs to exit, in milliseconds. 0
   * to 2^31 - 1.
   */
  readonly deadlineMs: number;
  /** Signals that count as a notice. Default SIGTERM. */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  readonly clock?: Clock | undefined;
  /** Default: warnings become Node's process warnings. */
  readonly logger?: Logger | undefined;
}

const deadline = duration(0, TIMER_MS_MAX);
const processSignal = rule(
  (value) =>
    typeof value === 'string' &&
    Object.hasOwn(constants.signals, value) &&
    value !== 'SIGKILL' &&
    value !== 'SIGSTOP',
  'a signal that a process can listen to, such as SIGTERM',
);
const OPTIONS: Rules<PreemptionOptions> = {
  saver: having('saveStreams', 'settled'),
  deadlineMs: deadline,
  signals: optional(listOf(processSignal)),
  clock: optional(aClock),
  logger: optional(aLogger),
};

/**
 * Releases the hold. Pass an error if the state could not be saved: the report then states a loss,
 * unless a later save has become durable. Safe to repeat: the first call counts.
 */
export type ReleaseHold = (error?: unknown) => void;

interface Hold {
  readonly loss: () => string | null;
  readonly over: PromiseWithResolvers<void>;
}

/**
 * Waits for a notice, by a signal or by `request`, and then for the save in flight, as long as
 * there is time. Until it is disposed, the signals do not end the process: your code must exit the
 * process itself once `finished` has resolved. Before a notice it does not keep the process alive.
 */
export class Preemption implements Disposable {
  readonly saver: Saver;
  /**
   * Resolves when no save is in flight and no hold is left, or at the deadline, whichever is first.
   * Never rejects. A save in flight at the deadline continues. Its uploads stay useful: a writer
   * that saves the same in the same attempt need not send these bytes again.
   */
  readonly finished: Promise<PreemptionReport>;
  readonly #deadlineMs: number;
  readonly #signals: readonly NodeJS.Signals[];
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #notice = new AbortController();
  readonly #deadline = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<PreemptionReport>();
  /** Ends the timers, and the reading of the newest version, when the report is made. */
  readonly #ending = new AbortController();
  readonly #holds = new Set<Hold>();
  #report: PreemptionReport | null = null;
  /**
   * Set while `settled` of the saver is awaited. `newest`: the last save that the saver had
   * committed when the wait began.
   */
  #settling: { readonly newest: Saver['newest'] } | null = null;
  #failure: { readonly loss: Loss; readonly newestThen: Saver['newest'] } | null = null;
  #latest: PreemptionReport['durable'] = 'unknown';

  /** `InvalidArgument`: the deadline is out of range, or a process cannot listen to a signal. */
  constructor(options: PreemptionOptions) {
    checkOptions(options, OPTIONS);
    const { signals = ['SIGTERM'] } = options;
    if (!isMainThread && signals.length > 0) {
      const message =
        'a worker thread hears no signals: create Preemption in the main thread, or pass `signals: []` and call `request`';
      throw new CheckpointError('InvalidArgument', message);
    }
    this.saver = options.saver;
    this.finished = this.#end.promise;
    this.#deadlineMs = options.deadlineMs;
    this.#signals = signals;
    this.#clock = options.clock ?? systemClock;
    this.#logger = safeLogger(options.logger ?? processWarnings);
    for (const signal of signals) process.on(signal, this.#onSignal);
  }

  get isRequested(): boolean {
    return this.#notice.signal.aborted;
  }

  /** Fires at the notice. */
  get signal(): AbortSignal {
    return this.#notice.signal;
  }

  /** `null` until `finished` has resolved. */
  get report(): PreemptionReport | null {
    return this.#report;
  }

  /**
   * Gives a notice by code, for example from the cloud's API or because the job's time is up.
   * Default of `deadlineMs`: the value given to the constructor. After several notices the earliest
   * deadline counts.
   */
  request(notice: { readonly deadlineMs?: number | undefined } = {}): void {
    checkOptions(notice, { deadlineMs: optional(deadline) });
    const { deadlineMs = this.#deadlineMs } = notice;
    if (this.#report !== null) return;
    this.#clock.sleep(deadlineMs, this.#ending.signal).then(
      () => this.#deadline.resolve(),
      () => undefined, // it ended before the deadline
    );
    if (this.isRequested) return;
    this.#notice.abort();
    this.#logger.log('info', `preempted: ${secondsText(deadlineMs)} left`);
    const { throttle } = this.saver.manager;
    throttle.setBytesPerSecondMax(null);
    throttle.resume();
    void this.#conclude();
  }

  /**
   * For code that still has something to save after a notice: `finished` waits until the returned
   * function is called. If the hold is still there at the deadline, `loss` is called. It completes
   * the sentence "the last state …" of the report, for example with "was not copied", or returns
   * `null` if nothing is lost.
   */
  hold(loss: () => string | null): ReleaseHold {
    const hold: Hold = { loss, over: Promise.withResolvers() };
    this.#holds.add(hold);
    return (error) => {
      if (!this.#holds.delete(hold)) return;
      if (error !== undefined) this.#noteFailure(error, null);
      hold.over.resolve();
    };
  }

  /** Restores the usual action of the signals. Waits in progress continue. Safe to repeat. */
  [Symbol.dispose](): void {
    for (const signal of this.#signals) process.off(signal, this.#onSignal);
  }

  readonly #onSignal = (): void => this.request();

  async #conclude(): Promise<void> {
    const sinceMs = this.#clock.monotonicMs();
    await Promise.race([this.#quiet(), this.#deadline.promise]);
    this.#ending.abort();
    const durable = this.saver.newest?.version ?? this.#latest;
    this.#report = reportOf(durable, this.#loss(this.#clock.monotonicMs() - sinceMs));
    this.#logger.log(this.#report.lost === null ? 'info' : 'warn', this.#report.text);
    this.#end.resolve(this.#report);
  }

  /** Resolves when nothing is left to wait for. */
  async #quiet(): Promise<void> {
    const patience = this.#clock.sleep(LATEST_TIMEOUT_MS, this.#ending.signal).catch(() => undefined);
    const learned = this.#learnLatest();
    let version = this.saver.inFlight?.version ?? null;
    do {
      await Promise.all([...this.#holds].map((hold) => hold.over.promise));
      version = this.saver.inFlight?.version ?? version;
      await this.#settle(version);
    } while (this.#holds.size > 0 || this.saver.inFlight !== null);
    if (this.saver.newest === null) await Promise.race([learned, patience]);
  }

  async #settle(version: bigint | null): Promise<void> {
    this.#settling = { newest: this.saver.newest };
    try {
      await this.saver.settled();
    } catch (error) {
      this.#noteFailure(error, version);
    }
    this.#settling = null;
  }

  async #learnLatest(): Promise<void> {
    if (this.saver.newest !== null) return;
    try {
      this.#latest = (await this.saver.manager.latest({ signal: this.#ending.signal }))?.version ?? null;
    } catch (error) {
      if (this.#ending.signal.aborted) return; // the report is already made
      this.#logger.log('info', 'preempted: the newest durable version could not be read', { error });
    }
  }

  #noteFailure(error: unknown, versionInFlight: bigint | null): void {
    this.#failure = { loss: lossByError(error, versionInFlight), newestThen: this.saver.newest };
  }

  #loss(afterMs: number): Loss | null {
    if (this.saver.inFlight !== null) return lossInFlight(this.saver.inFlight, afterMs);
    if (this.#settling?.newest === this.saver.newest) {
      return { version: null, why: `was not copied in ${secondsText(afterMs)}` };
    }
    for (const hold of this.#holds) {
      try {
        const why = hold.loss();
        if (why !== null) return { version: null, why };
      } catch (error) {
        return lossByError(error, null);
      }
    }
    // A version that became durable after the failure holds a later state, so nothing is lost.
    return this.#failure?.newestThen === this.saver.newest ? this.#failure.loss : null;
  }
}
