/** Visits places and what lies below them, several at a time. */

import { createCheckpointManager, listDirectories } from '@holdfast/core';
import {
  abortSignal,
  aClock,
  aStore,
  CheckpointError,
  type Clock,
  checkOptions,
  flag,
  isCheckpointError,
  isStopOf,
  type ObjectStore,
  optional,
  plainObject,
  type Rules,
  systemClock,
  throwIfAborted,
  toCheckpointError,
  wholeNumber,
} from '@holdfast/core/contract';
import { StoreBelow } from '@holdfast/core/store';
import { openStore, type StoreEnvironment } from '@holdfast/stores';
import { failedSummary, knownSummary, type RunPlace, type RunSummary } from './run-summary.ts';
import { uriBelow } from './uri-below.ts';

/** A URI, or a store that the caller has opened for it and closes. */
export type FleetPlace = string | { readonly uri: string; readonly store: ObjectStore };

export interface FleetOptions {
  readonly signal?: AbortSignal | undefined;
  /** Fills what URIs leave open; default: `process.env`. */
  readonly env?: StoreEnvironment | undefined;
  /** Runs of one place that are read at a time, 1 to 256; default 32. */
  readonly concurrency?: number | undefined;
  /** Time for one run, retries included, 1 ms to an hour; default 30 s. */
  readonly runTimeoutMs?: number | undefined;
  /** Attempts and fences are counted over this time, 1 ms to 366 days; default: one day. */
  readonly historyMs?: number | undefined;
  /**
   * Find out when the newest verified checkpoint was verified: up to ten reads more for a run that
   * has one. Default: false.
   */
  readonly findVerification?: boolean | undefined;
  /** Also list the saves in progress: more requests for each run. Default: false. */
  readonly listSaves?: boolean | undefined;
  /** Directories below a place that are searched, one within the other, 0 to 32; default 8. */
  readonly depthMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

const OPTIONS: Rules<FleetOptions> = {
  signal: optional(abortSignal),
  env: optional(plainObject),
  concurrency: optional(wholeNumber(1, 256)),
  runTimeoutMs: optional(wholeNumber(1, 60 * 60_000)),
  historyMs: optional(wholeNumber(1)),
  findVerification: optional(flag),
  listSaves: optional(flag),
  depthMax: optional(wholeNumber(0, 32)),
  clock: optional(aClock),
};

const CONCURRENCY = 32;
const RUN_TIMEOUT_MS = 30_000;
/** The longest silence of one request. */
const STALL_TIMEOUT_MS = 20_000;
const DEPTH_MAX = 8;
/** A place with more directories is not one of runs. */
const DIRECTORIES_MAX = 1_000_000;

/**
 * The runs at and below the given places, each as soon as it is known, in no order. A run below two
 * places is given once. A run that cannot be read is given with its error, and the others are read
 * all the same. So is a directory that may not be listed, because there may be runs below it.
 * Directories inside a run are not searched.
 *
 * Changes nothing. Requests: for each run those of `RunAdmin.overview`, usually three small ones;
 * for each directory that is no run two to four.
 *
 * Throws `InvalidArgument` and `InvalidConfig` for options and URIs that are not accepted, before
 * the first run is given, and `Aborted` when `signal` fires.
 */
export async function* fleetOf(
  places: readonly FleetPlace[],
  options: FleetOptions = {},
): AsyncGenerator<RunSummary, void, void> {
  checkOptions(options, OPTIONS, 'what fleetOf is given');
  throwIfAborted(options.signal);
  const opened = await openPlaces(places, options.env);
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  const found: RunSummary[] = [];
  const seen = new Set<string>();
  let wake = Promise.withResolvers<void>();
  const emit = (summary: RunSummary) => {
    if (seen.has(summary.uri)) return;
    seen.add(summary.uri);
    found.push(summary);
    wake.resolve();
  };
  let isDone = false;
  const searching = Promise.all(
    opened.map(({ uri, store }) => new Search(uri, store, { ...options, signal }, emit).run()),
  ).finally(() => {
    isDone = true;
    wake.resolve();
  });
  searching.catch(() => undefined); // it is awaited below
  try {
    while (!isDone || found.length > 0) {
      await wake.promise;
      wake = Promise.withResolvers();
      yield* found.splice(0);
    }
    await searching;
  } finally {
    stop.abort(new CheckpointError('Aborted', 'the caller needs no more runs'));
    await searching.catch(() => undefined);
    await Promise.all(opened.map(({ isOurs, store }) => isOurs && store.close()));
  }
}

interface OpenedPlace {
  readonly uri: string;
  readonly store: ObjectStore;
  readonly isOurs: boolean;
}

async function openPlaces(
  places: readonly FleetPlace[],
  env: StoreEnvironment | undefined,
): Promise<OpenedPlace[]> {
  const opened: OpenedPlace[] = [];
  try {
    for (const place of places) {
      if (typeof place === 'string')
        opened.push({ uri: place, store: await openStore(place, env), isOurs: true });
      else {
        checkOptions(place, { uri: () => undefined, store: aStore }, 'a place');
        opened.push({ ...place, isOurs: false });
      }
    }
    return opened;
  } catch (error) {
    await Promise.all(opened.map(({ isOurs, store }) => isOurs && store.close()));
    throw error;
  }
}

/** A directory to visit. */
interface Visit {
  /** Relative to the place; empty: the place itself. */
  readonly name: string;
  readonly depth: number;
}

/** The search below one place. A slow store delays no other place. */
class Search {
  readonly #uri: string;
  readonly #store: ObjectStore;
  readonly #options: FleetOptions & { readonly signal: AbortSignal };
  readonly #clock: Clock;
  readonly #emit: (summary: RunSummary) => void;
  readonly #waiting: Visit[] = [{ name: '', depth: 0 }];
  #visitCount = 1;
  /** Unreachable runs since the last one that answered. */
  #silentCount = 0;
  #silence: CheckpointError | null = null;

  constructor(
    uri: string,
    store: ObjectStore,
    options: FleetOptions & { readonly signal: AbortSignal },
    emit: (summary: RunSummary) => void,
  ) {
    this.#uri = uri;
    this.#store = store;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#emit = emit;
  }

  /** Visits until nothing is left. Rejects only if it was stopped. */
  async run(): Promise<void> {
    const limit = this.#options.concurrency ?? CONCURRENCY;
    const active = new Set<Promise<void>>();
    try {
      for (;;) {
        throwIfAborted(this.#options.signal);
        while (active.size < limit) {
          const next = this.#waiting.pop();
          if (next === undefined) break;
          const visit = this.#visit(next).finally(() => active.delete(visit));
          active.add(visit);
        }
        if (active.size === 0) return;
        await Promise.race(active);
      }
    } finally {
      await Promise.allSettled(active);
    }
  }

  async #visit(visit: Visit): Promise<void> {
    const run: RunPlace = { uri: uriBelow(this.#uri, visit.name), place: this.#uri, name: visit.name };
    try {
      if (this.#silence !== null) throw this.#silence;
      const summary = await this.#read(run);
      this.#silentCount = 0;
      if (summary !== null) this.#emit(summary);
      else await this.#goBelow(visit);
    } catch (thrown) {
      if (isStopOf(thrown, this.#options.signal)) throw thrown;
      const summary = failedSummary(run, toCheckpointError(thrown), this.#clock.nowMs());
      if (summary.state === 'unreachable') this.#noteSilence(summary.problem?.message ?? '');
      this.#emit(summary);
    }
  }

  /**
   * After as many unreachable runs in a row as are read at a time, the store counts as gone, and
   * the others are not asked for: each would wait for its own timeout.
   */
  #noteSilence(message: string): void {
    this.#silentCount += 1;
    if (this.#silentCount < (this.#options.concurrency ?? CONCURRENCY)) return;
    this.#silence ??= new CheckpointError('Unavailable', `not asked, because others failed: ${message}`, {
      context: { store: this.#store.uri },
    });
  }

  /** `null`: there is no run. */
  async #read(run: RunPlace): Promise<RunSummary | null> {
    const { signal, historyMs, findVerification, listSaves: listBegun } = this.#options;
    const prefix = run.name === '' ? '' : `${run.name}/`;
    const manager = createCheckpointManager({
      store: new StoreBelow(this.#store, { prefix, uri: run.uri }),
      clock: this.#clock,
      settings: this.#settings(),
    });
    try {
      const overview = await manager.admin.overview({ signal, historyMs, findVerification, listBegun });
      return knownSummary(run, overview, this.#clock.nowMs());
    } catch (error) {
      if (isCheckpointError(error, 'NotFound') && error.context['run'] === 'missing') return null;
      throw error;
    } finally {
      await manager.close();
    }
  }

  async #goBelow({ name, depth }: Visit): Promise<void> {
    if (depth === (this.#options.depthMax ?? DEPTH_MAX)) return;
    const prefix = name === '' ? '' : `${name}/`;
    const { signal } = this.#options;
    const names = await listDirectories(this.#store, prefix, {
      signal,
      clock: this.#clock,
      settings: this.#settings(),
    });
    this.#visitCount += names.length;
    if (this.#visitCount > DIRECTORIES_MAX) throw tooMany(this.#uri);
    for (const below of names.reverse()) this.#waiting.push({ name: prefix + below, depth: depth + 1 });
  }

  /** Retries end before the limit, so that the error is the store's. */
  #settings() {
    const timeoutMs = this.#options.runTimeoutMs ?? RUN_TIMEOUT_MS;
    const shorterMs = Math.max(1, Math.floor(timeoutMs * 0.75));
    return {
      recordTimeoutMs: timeoutMs,
      retryTimeoutMs: shorterMs,
      stallTimeoutMs: Math.min(STALL_TIMEOUT_MS, shorterMs),
      workers: 0, // it reads no payload
    };
  }
}

function tooMany(uri: string): CheckpointError {
  return new CheckpointError(
    'Unsupported',
    `${uri} has more than ${DIRECTORIES_MAX} directories; give URIs closer to the runs`,
    { context: { store: uri } },
  );
}
