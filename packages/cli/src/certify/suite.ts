/**
 * The conformance suite on somebody's store: every check once, and again if it could not be carried
 * out for a while.
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
/** Less than a check has to end once it is stopped. */
const BEGINNING_MS_MAX = 1500;
/** A store that looks first and writes then lets two in about once in ten rounds. */
const RACE_ROUNDS = 100;
/** So many checks in a row that could not be carried out for a while: the store is gone. */
const FAILURES_IN_A_ROW_MAX = 3;

export interface CheckResult {
  readonly group: string;
  readonly name: string;
  readonly status: 'passed' | 'failed' | 'not-run';
  /** Of all attempts. */
  readonly durationMs: number;
  /** 0: it was not run. More than 1: the store was busy or could not be reached before. */
  readonly attempts: number;
  /** What was expected and what was found; empty where it passed. */
  readonly seen: string;
  /**
   * `Unsupported`: the promise is broken. Another: of the error that kept the check from telling.
   * `null`: it passed, or was not run.
   */
  readonly code: ErrorCode | null;
}

export interface SuiteOptions {
  readonly checks: readonly ConformanceCheck[];
  /** A new client of the store, as another process would open it. */
  readonly open: () => Promise<ObjectStore>;
  /** Never used before; ends in a slash. Everything happens below it. */
  readonly prefix: string;
  /** Replays bytes and order of calls. */
  readonly seed: number;
  readonly clock: Clock;
  /** For each attempt of a check. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onStart: (check: ConformanceCheck, index: number) => void;
  readonly onResult: (result: CheckResult) => void;
}

/** Runs checks, and removes what those leave behind that are stopped. */
export class Suite {
  readonly #options: SuiteOptions;
  #store: Promise<ObjectStore> | undefined;
  /** Of uploads that no check is known to have ended. */
  readonly #uploadTokens: string[] = [];

  constructor(options: SuiteOptions) {
    this.#options = options;
  }

  /**
   * One result for each check, in order. When the signal fires it ends soon, with what is known by
   * then.
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

  /** Takes away what is left below the prefix. Never rejects. */
  async remove(random: Random, signal: AbortSignal): Promise<Removal> {
    const { clock, prefix } = this.#options;
    try {
      const store = await this.#client();
      const end = async (token: string) => (await store.resumeUpload(token, { signal })).abort({ signal });
      // one that is gone, or cannot be found, keeps nobody
      await Promise.allSettled(this.#uploadTokens.map(end));
      return await removeBelow(store, [], { clock, random, prefix, signal, onRepeat: () => undefined });
    } catch (error) {
      return { leftCount: 0, error: toCheckpointError(error) };
    }
  }

  /** Never rejects. */
  async close(): Promise<void> {
    const store = this.#store;
    this.#store = undefined; // whoever goes on has a new one
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
        // the loop sees the signal
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
   * Resolves to the error, or `null`. One that is stopped finds its clients closed, and so ends
   * soon.
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

/** What one attempt has opened and begun, besides the client of the suite. */
class Clients {
  readonly uploadTokens: string[] = [];
  readonly #options: Pick<SuiteOptions, 'open' | 'clock'>;
  readonly #stores: ObjectStore[] = [];
  readonly #beginning = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(options: Pick<SuiteOptions, 'open' | 'clock'>) {
    this.#options = options;
  }

  async open(): Promise<ObjectStore> {
    const store = await this.#options.open();
    this.#stores.push(store);
    if (this.#isStopped) await store.close();
    return store;
  }

  note(upload: Promise<Upload>): void {
    const noted = upload.then(({ token }) => this.uploadTokens.push(token)).catch(() => undefined);
    this.#beginning.add(noted);
    void noted.then(() => this.#beginning.delete(noted));
  }

  /**
   * An upload whose beginning was cut off could be ended by nobody: it is waited for, and not for
   * ever. Never rejects.
   */
  async stop(): Promise<void> {
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + BEGINNING_MS_MAX;
    while (this.#beginning.size > 0 && clock.monotonicMs() < untilMs)
      await atMost(BEGINNING_MS_MAX, clock, Promise.all(this.#beginning));
    this.#isStopped = true;
    await Promise.allSettled(this.#stores.map((store) => store.close()));
  }
}

/** Errors that say nothing about the promise: it could not be looked at. */
const KEPT_FROM_LOOKING: readonly ErrorCode[] = [
  'Denied',
  'ReadOnly',
  'StorageFull',
  'InvalidConfig',
  'Throttled',
  'Unavailable',
  'TimedOut',
];

/** Of those, the ones that may be gone a moment later. */
function mayPass(code: ErrorCode | null): boolean {
  return code === 'Throttled' || code === 'Unavailable' || code === 'TimedOut';
}

/** The store's own error lies below that of the check. */
function codeOf(error: unknown): ErrorCode {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (isCheckpointError(cause) && KEPT_FROM_LOOKING.includes(cause.code)) return cause.code;
  }
  return 'Unsupported';
}

/** `seen`: why. */
export function notRun({ group, name }: ConformanceCheck, seen: string): CheckResult {
  return { group, name, status: 'not-run', durationMs: 0, attempts: 0, seen, code: null };
}
