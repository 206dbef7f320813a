/**
 * Runs the conformance suite on a user's store: every check once, and again after temporary
 * failures.
 */

import {
  type Clock,
  type ErrorCode,
  isCheckpointError,
  type ObjectStore,
  type Random,
  toCheckpointError,
  type Upload,
} from '@holdfast/core/contract';
import { type ConformanceCheck, SeededRandom } from '@holdfast/testkit';
import { atMost, inTime } from '../doctor/in-time.ts';
import { type Removal, removeBelow } from '../doctor/removal.ts';

const ATTEMPTS_MAX = 3;
const RETRY_DELAY_MS = 2000;
/** Shorter than the time a stopped check has to end. */
const BEGINNING_MS_MAX = 1500;
/**
 * A store that checks first and then writes lets two creates succeed in about one of ten rounds.
 */
const RACE_ROUNDS = 100;
/**
 * After this many consecutive checks that temporarily could not run, the store counts as
 * unavailable.
 */
const FAILURES_IN_A_ROW_MAX = 3;

export interface CheckResult {
  readonly group: string;
  readonly name: string;
  readonly status: 'passed' | 'failed' | 'not-run';
  /** Sum of all attempts. */
  readonly durationMs: number;
  /** 0: not run. More than 1: the store was busy or unreachable before. */
  readonly attempts: number;
  /** The expectation and the observation; empty if it passed. */
  readonly seen: string;
  /**
   * `Unsupported`: the store breaks the contract. Other codes: the error that prevented the check.
   * `null`: it passed, or was not run.
   */
  readonly code: ErrorCode | null;
}

export interface SuiteOptions {
  readonly checks: readonly ConformanceCheck[];
  /** Opens a new client of the store, as another process would. */
  readonly open: () => Promise<ObjectStore>;
  /** A unique prefix that ends in a slash. Everything happens below it. */
  readonly prefix: string;
  /** Reproduces the bytes and the order of calls. */
  readonly seed: number;
  readonly clock: Clock;
  /** Limit of each attempt of a check. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onStart: (check: ConformanceCheck, index: number) => void;
  readonly onResult: (result: CheckResult) => void;
}

/** Runs checks, and removes what stopped checks leave behind. */
export class Suite {
  readonly #options: SuiteOptions;
  #store: Promise<ObjectStore> | undefined;
  /** Tokens of uploads that may not have been ended. */
  readonly #uploadTokens: string[] = [];

  constructor(options: SuiteOptions) {
    this.#options = options;
  }

  /**
   * Resolves to one result for each check, in order. When the signal fires it ends soon, with the
   * results so far.
   */
  async run(): Promise<CheckResult[]> {
    const { checks, signal, onStart, onResult } = this.#options;
    const results: CheckResult[] = [];
    let failuresInARow = 0;
    for (const [index, check] of checks.entries()) {
      if (signal.aborted) break;
      const isGone = failuresInARow === FAILURES_IN_A_ROW_MAX;
      if (!isGone) onStart(check, index);
      const result = isGone
        ? notRun(check, 'the store could not be reached any more')
        : await this.#runCheck(check, index);
      if (result === null) break;
      if (!isGone) failuresInARow = mayPass(result.code) ? failuresInARow + 1 : 0;
      results.push(result);
      onResult(result);
    }
    return results;
  }

  /** Removes what is left below the prefix. Never rejects. */
  async remove(random: Random, signal: AbortSignal): Promise<Removal> {
    const { clock, prefix } = this.#options;
    try {
      const store = await this.#client();
      const end = async (token: string) => (await store.resumeUpload(token, { signal })).abort({ signal });
      // Ignore an upload that is gone or cannot be found.
      await Promise.allSettled(this.#uploadTokens.map(end));
      return await removeBelow(store, [], { clock, random, prefix, signal, onRepeat: () => undefined });
    } catch (error) {
      return { leftCount: 0, error: toCheckpointError(error) };
    }
  }

  /** Never rejects. */
  async close(): Promise<void> {
    const store = this.#store;
    this.#store = undefined; // The next check opens a new one.
    await Promise.allSettled([store?.then((opened) => opened.close())]);
  }

  /** `null`: it was interrupted. */
  async #runCheck(check: ConformanceCheck, index: number): Promise<CheckResult | null> {
    const { clock, signal } = this.#options;
    const beganMs = clock.monotonicMs();
    for (let attempts = 1; ; attempts += 1) {
      const error = await this.#attempt(check, index);
      if (signal.aborted) return null;
      const code = error === null ? null : codeOf(error);
      if (mayPass(code) && attempts < ATTEMPTS_MAX) {
        // The loop checks the signal.
        await clock.sleep(RETRY_DELAY_MS * attempts, signal).catch(() => undefined);
        continue;
      }
      const durationMs = clock.monotonicMs() - beganMs;
      const seen = error === null ? '' : toCheckpointError(error).message;
      const status = error === null ? 'passed' : 'failed';
      return { group: check.group, name: check.name, status, durationMs, attempts, seen, code };
    }
  }

  /**
   * Resolves to the error, or `null`. A stopped check ends soon, because its clients are closed.
   */
  async #attempt(check: ConformanceCheck, index: number): Promise<unknown> {
    const { prefix, seed } = this.#options;
    const clients = new Clients(this.#options);
    const body = async (stop: AbortSignal) => {
      const store = await this.#client();
      const onStop = () => void clients.stop().then(() => this.close());
      stop.addEventListener('abort', onStop, { once: true });
      const random = new SeededRandom(seed + index);
      const open = () => clients.open();
      const onUpload = (upload: Promise<Upload>) => clients.note(upload);
      try {
        await check.run({ store, open, random, prefix, onUpload, raceRounds: RACE_ROUNDS });
      } finally {
        stop.removeEventListener('abort', onStop);
      }
    };
    return inTime(this.#options, body).then(
      () => null,
      (error: unknown) => {
        this.#uploadTokens.push(...clients.uploadTokens);
        return error;
      },
    );
  }

  #client(): Promise<ObjectStore> {
    this.#store ??= this.#options.open();
    return this.#store;
  }
}

/** Clients and uploads of one attempt, besides the client of the suite. */
class Clients {
  readonly uploadTokens: string[] = [];
  readonly #options: Pick<SuiteOptions, 'open' | 'clock'>;
  readonly #stores: Promise<ObjectStore>[] = [];
  readonly #beginning = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(options: Pick<SuiteOptions, 'open' | 'clock'>) {
    this.#options = options;
  }

  async open(): Promise<ObjectStore> {
    const opening = this.#options.open();
    this.#stores.push(opening);
    const store = await opening;
    if (this.#isStopped) await store.close();
    return store;
  }

  note(upload: Promise<Upload>): void {
    const noted = upload.then(({ token }) => this.uploadTokens.push(token)).catch(() => undefined);
    this.#beginning.add(noted);
    void noted.then(() => this.#beginning.delete(noted));
  }

  /**
   * Waits, with a limit, for uploads that are beginning: an upload whose beginning was interrupted
   * could not be aborted. Never rejects.
   */
  async stop(): Promise<void> {
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + BEGINNING_MS_MAX;
    while (this.#beginning.size > 0 && clock.monotonicMs() < untilMs)
      await atMost(BEGINNING_MS_MAX, clock, Promise.all(this.#beginning));
    this.#isStopped = true;
    // Also those that are being opened: a local store makes files, and removes them when closed.
    await Promise.allSettled(this.#stores.map(async (store) => (await store).close()));
  }
}

/** Errors that say nothing about the contract: the check could not run. */
const KEPT_FROM_LOOKING: readonly ErrorCode[] = [
  'Denied',
  'ReadOnly',
  'StorageFull',
  'InvalidConfig',
  'Throttled',
  'Unavailable',
  'TimedOut',
];

/** Tells whether the failure may be temporary. */
function mayPass(code: ErrorCode | null): boolean {
  return code === 'Throttled' || code === 'Unavailable' || code === 'TimedOut';
}

/** The store's own error is a cause of the check's error. */
function codeOf(error: unknown): ErrorCode {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isCheckpointError(cause) && KEPT_FROM_LOOKING.includes(cause.code)) return cause.code;
  }
  return 'Unsupported';
}

/** `seen`: the reason. */
export function notRun({ group, name }: ConformanceCheck, seen: string): CheckResult {
  return { group, name, status: 'not-run', durationMs: 0, attempts: 0, seen, code: null };
}
