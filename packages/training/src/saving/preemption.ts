/** The machine is to be taken away: what is left to do, until when, and what came of it. */

import { constants } from 'node:os';
import {
  aClock,
  aLogger,
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

/** Since the notice: so long may a store take to say what is durable, if nothing else is waited for. */
const LATEST_TIMEOUT_MS = 2000;

export interface PreemptionOptions {
  readonly saver: Saver;
  /** From a notice until the process is taken away, less what it needs to leave. 0 to 2^31 - 1. */
  readonly deadlineMs: number;
  /** Which signals are a notice. Default SIGTERM. */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  readonly clock?: Clock | undefined;
  /** Default: warnings become those of the process. */
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

/** Says that it is over; with an error, that what was to be saved is not. Safe to repeat: the first call counts. */
export type ReleaseHold = (error?: unknown) => void;

interface Hold {
  readonly loss: () => string | null;
  readonly over: PromiseWithResolvers<void>;
}

/**
 * Waits for a notice, by a signal or by `request`, and then for the save in flight, as long as there is time. Until it is disposed the signals
 * do not end the process: whoever makes one leaves by himself, once `finished` has settled. It does not keep a process alive before a notice.
 */
export class Preemption implements Disposable {
  readonly saver: Saver;
  /**
   * Settles when nothing is in flight and nobody holds it any more, or at the deadline, whichever is first. Never rejects. What is in flight
   * at the deadline goes on: what it has uploaded need not be sent again by a writer that saves the same in the same attempt.
   */
  readonly finished: Promise<PreemptionReport>;
  readonly #deadlineMs: number;
  readonly #signals: readonly NodeJS.Signals[];
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #notice = new AbortController();
  readonly #deadline = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<PreemptionReport>();
  /** Ends the sleeps of the deadlines. */
  readonly #isEnded = new AbortController();
  readonly #holds = new Set<Hold>();
  #report: PreemptionReport | null = null;
  /** The saver is asked to settle; `newest` was the last one that it had committed before. */
  #settling: { readonly newest: Saver['newest'] } | null = null;
  #failure: { readonly loss: Loss; readonly newestThen: Saver['newest'] } | null = null;
  #latest: PreemptionReport['durable'] = 'unknown';

  /** `InvalidArgument`: a deadline out of range, or a signal that nobody can listen to. */
  constructor(options: PreemptionOptions) {
    checkOptions(options, OPTIONS);
    const { signals = ['SIGTERM'] } = options;
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

  /** `null` until `finished` has settled. */
  get report(): PreemptionReport | null {
    return this.#report;
  }

  /**
   * A notice by hand: of the cloud, or because the time of the job is up. Of several notices the earliest deadline counts. Default: the
   * `deadlineMs` of the constructor.
   */
  request(notice: { readonly deadlineMs?: number | undefined } = {}): void {
    checkOptions(notice, { deadlineMs: optional(deadline) });
    const { deadlineMs = this.#deadlineMs } = notice;
    if (this.#report !== null) return;
    this.#clock.sleep(deadlineMs, this.#isEnded.signal).then(
      () => this.#deadline.resolve(),
      () => undefined, // ended before
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
   * For whoever has still something to save after a notice: `finished` waits until what this returns is called. At the deadline `loss` is
   * asked what is lost because that was not over, in words that follow "the last state"; `null`: nothing.
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

  /** The signals have their usual action again. What is under way goes on. Safe to repeat. */
  [Symbol.dispose](): void {
    for (const signal of this.#signals) process.off(signal, this.#onSignal);
  }

  readonly #onSignal = (): void => this.request();

  async #conclude(): Promise<void> {
    const sinceMs = this.#clock.monotonicMs();
    await Promise.race([this.#quiet(), this.#deadline.promise]);
    this.#isEnded.abort();
    const durable = this.saver.newest?.version ?? this.#latest;
    this.#report = reportOf(durable, this.#loss(this.#clock.monotonicMs() - sinceMs));
    this.#logger.log(this.#report.lost === null ? 'info' : 'warn', this.#report.text);
    this.#end.resolve(this.#report);
  }

  /** Resolves when nothing is left to wait for. */
  async #quiet(): Promise<void> {
    const patience = this.#clock.sleep(LATEST_TIMEOUT_MS, this.#isEnded.signal).catch(() => undefined);
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
      this.#latest = (await this.saver.manager.latest({ signal: this.#isEnded.signal }))?.version ?? null;
    } catch (error) {
      if (this.#isEnded.signal.aborted) return; // all is said
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
    // What has become durable since holds more than what failed.
    return this.#failure?.newestThen === this.saver.newest ? this.#failure.loss : null;
  }
}
