/**
 * Holds the facts of one run. All pages that show it share one read of the store: however many
 * tabs are open, the store is asked at most once in `REFRESH_MS`.
 */

import {
  type BegunVersion,
  CheckpointError,
  type Clock,
  hasRun,
  isCheckpointError,
  isOfAnotherRun,
  type RunManager,
  type RunOverview,
  toCheckpointError,
} from '@holdfast/core/contract';
import type {
  BegunView,
  EventsView,
  GoodputView,
  Problem,
  RunView,
  VersionRow,
  VersionsPage,
} from './api.ts';
import { EventsReader } from './events.ts';
import { goodputOf } from './goodput.ts';
import { dependsOnTime, type KnownRun, knownRun } from './known-run.ts';
import { byCommit } from './picture.ts';
import { begunView, problemOf, versionRow } from './rows.ts';
import { isOfNewest, PAGE_ROWS_MAX, type PageQuery, versionsPage } from './versions-page.ts';

/** Two tabs that ask at the same time get the same answer. */
const REFRESH_MS = 2000;
/** A store that does not answer for so long is reported, and the page shows what it knew. */
const READ_TIMEOUT_MS = 30_000;
/** Versions whose records are read for the time to commit. */
const TIMED_MAX = 5;

interface Known extends KnownRun {
  readonly readAtMs: number;
  readonly seq: number;
  readonly facts: OverviewFacts;
  /** The plan of retention is made again with each look. */
  readonly isTimed: boolean;
  readonly begun: readonly BegunView[] | Problem;
}

type OverviewFacts = Pick<RunView, 'worldSize' | 'attempt' | 'referencedBytes' | 'clockDifferenceMs'>;

/** What one small read tells: enough for the first page of versions. */
interface Newest {
  readonly seq: number;
  readonly versionCount: number;
  /** The newest, without verdicts; none if all versions are known already. */
  readonly rows: readonly VersionRow[];
}

export class RunReader {
  readonly manager: RunManager;
  /** As the command was given it: with settings that the manager's URI does not have. */
  readonly #uri: string;
  readonly #clock: Clock;
  readonly #end = new AbortController();
  #known: Known | null = null;
  #problem: Problem | null = null;
  #isReplaced = false;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;
  /** The last look at the newest versions. */
  #newest: Promise<Newest> | null = null;
  #newestAtMs = Number.NEGATIVE_INFINITY;
  readonly #events: EventsReader;

  constructor(manager: RunManager, uri: string, clock: Clock) {
    this.manager = manager;
    this.#events = new EventsReader(manager);
    this.#uri = uri;
    this.#clock = clock;
  }

  /** The run was removed and another one begun there: a new reader shows that one. */
  get isReplaced(): boolean {
    return this.#isReplaced;
  }

  /** `false`: there is no run. Reads the newest versions. Rejects if the store does not tell. */
  async hasRun(): Promise<boolean> {
    try {
      await this.#newestNow();
      return true;
    } catch (error) {
      if (isCheckpointError(error, 'NotFound') && error.context['run'] === 'missing') return false;
      throw error;
    }
  }

  /**
   * The run as of now, or, if the store cannot be read, as of the last success, with the problem.
   * Rejects with the store's error if there was no success yet.
   */
  async view(): Promise<RunView> {
    return this.#viewOf(await this.#current());
  }

  /** View and versions of the same look. */
  async viewAndRows(): Promise<{ readonly view: RunView; readonly rows: readonly VersionRow[] }> {
    const known = await this.#current();
    return { view: this.#viewOf(known), rows: known.rows };
  }

  /** The store's clock minus this machine's. Three small reads, unless the run is known already. */
  async clockDifferenceMs(signal: AbortSignal): Promise<number> {
    if (this.#known !== null) return this.#known.facts.clockDifferenceMs;
    const { storeTimeMs } = await this.manager.admin.overview({ signal });
    return storeTimeMs - this.#clock.nowMs();
  }

  /**
   * Until all versions are known, the newest are answered at once, without verdicts: a long run has
   * the others in pages of its catalog.
   */
  async versions(query: PageQuery): Promise<VersionsPage> {
    if (this.#known === null && isOfNewest(query)) {
      const { rows, versionCount } = await this.#newestNow();
      return { ...versionsPage(rows, query), total: versionCount };
    }
    return versionsPage(await this.rows(), query);
  }

  /** All checkpoints, newest first. */
  async rows(): Promise<readonly VersionRow[]> {
    return (await this.#current()).rows;
  }

  /** The newest decisions. Reads one entry of the catalog for each that was not read before. */
  async events(): Promise<EventsView> {
    const { seq } = await this.#current();
    return this.#events.read(seq, this.#signal());
  }

  /** From commits and decisions, and from the records of a few versions that report times. */
  async goodput(signal: AbortSignal): Promise<GoodputView> {
    const [rows, events] = [await this.rows(), await this.events()];
    const sample = rows
      .filter(({ state, isLeftBehind }) => state === 'live' && !isLeftBehind)
      .slice(0, TIMED_MAX);
    const times: number[] = [];
    for (const { version, lineage } of sample) {
      const checkpoint = await this.manager.get({ version: BigInt(version), lineage }, { signal });
      const details = await checkpoint?.details({ signal });
      const taken = (details?.writers ?? []).flatMap(({ takenAtMs }) => takenAtMs ?? []);
      if (details && taken.length > 0) times.push(details.committedAtMs - Math.min(...taken));
    }
    return goodputOf(byCommit(rows), events, times);
  }

  /** The next call reads the store again. */
  forget(): void {
    this.#triedAtMs = Number.NEGATIVE_INFINITY;
    this.#newestAtMs = Number.NEGATIVE_INFINITY;
  }

  /** The next call reads the store again, even if a look that began before goes on. */
  async renew(): Promise<void> {
    await this.#reading;
    this.forget();
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.manager.close();
  }

  async #current(): Promise<Known> {
    if (this.#reading === null && this.#clock.monotonicMs() - this.#triedAtMs >= REFRESH_MS)
      this.#reading = this.#refresh().finally(() => (this.#reading = null));
    await this.#reading;
    if (this.#known !== null) return this.#known;
    const { code, message } = this.#problem as Problem;
    throw new CheckpointError(code as CheckpointError['code'], message);
  }

  async #refresh(): Promise<void> {
    try {
      this.#known = await this.#read();
      this.#problem = null;
    } catch (error) {
      this.#problem = problemOf(error);
      // A run that is gone is not shown as if it were there.
      if (toCheckpointError(error).code === 'NotFound') this.#known = null;
    } finally {
      this.#triedAtMs = this.#clock.monotonicMs();
    }
  }

  async #read(): Promise<Known> {
    const { admin } = this.manager;
    const signal = this.#signal();
    const newest = await this.#newestNow();
    const begun = await admin
      .begun({ signal })
      .then((list: readonly BegunVersion[]) => list.map(begunView), problemOf);
    const readAtMs = this.#clock.nowMs();
    const { seq } = newest;
    const same = this.#known?.seq === seq ? this.#known : null;
    if (same !== null && !same.isTimed) return { ...same, begun, readAtMs };
    // One after the other: the first reads the pages of the catalog, and the others have them.
    const versions = same?.rows ?? (await this.#versionRows(signal));
    const plan = await admin.planRetention({ signal }).catch((error: unknown) => toCheckpointError(error));
    const facts = same?.facts ?? overviewFacts(await admin.overview({ signal }), this.#clock.nowMs());
    const run = knownRun(this.#uri, seq, versions, plan);
    return { ...run, readAtMs, seq, begun, facts, isTimed: dependsOnTime(plan) };
  }

  async #versionRows(signal: AbortSignal): Promise<VersionRow[]> {
    return (await this.manager.list({ signal })).map((summary) => versionRow(summary, undefined));
  }

  #viewOf({ view, facts, begun, readAtMs }: Known): RunView {
    return { ...view, ...facts, begun, readAtMs, problem: this.#problem };
  }

  #newestNow(): Promise<Newest> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#newest !== null && nowMs - this.#newestAtMs < REFRESH_MS) return this.#newest;
    this.#newestAtMs = nowMs;
    this.#newest = this.#readNewest(this.#signal());
    return this.#newest;
  }

  async #readNewest(signal: AbortSignal): Promise<Newest> {
    const [newest] = await this.#noting(this.manager.admin.log({ limit: 1, signal }));
    if (newest === undefined) {
      await hasRun(this.manager, { signal }); // throws another error if the catalog was lost
      const context = { store: this.manager.uri, run: 'missing' } as const;
      throw new CheckpointError('NotFound', `there is no run at ${this.#uri}`, { context });
    }
    const { seq, versionCount } = newest;
    if (this.#known !== null) return { seq, versionCount, rows: [] };
    const summaries = await this.manager.list({ limit: PAGE_ROWS_MAX, signal });
    return { seq, versionCount, rows: summaries.map((each) => versionRow(each, undefined)) };
  }

  async #noting<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      if (isOfAnotherRun(error)) this.#isReplaced = true;
      throw error;
    }
  }

  #signal(): AbortSignal {
    return AbortSignal.any([this.#end.signal, AbortSignal.timeout(READ_TIMEOUT_MS)]);
  }
}

function overviewFacts(overview: RunOverview, nowMs: number): OverviewFacts {
  const { worldSize, attempt, referencedBytes, storeTimeMs } = overview;
  return { worldSize, attempt, referencedBytes, clockDifferenceMs: storeTimeMs - nowMs };
}
