/**
 * The log of decisions. Entries are numbered and created once. The highest entry is the current
 * state.
 *
 * A writer does not learn the outcome of its write from the entry number that it tried. The newest
 * state holds the ids of the last transactions, and these ids show the outcome.
 */

import { CheckpointError, type ErrorContext } from '../../contract/errors.ts';
import {
  type CatalogEntry,
  catalogKey,
  catalogPrefix,
  decodeRecord,
  type PageRef,
  parseCatalogKey,
} from '../../format/index.ts';
import type { Rejected } from '../../plan/decision.ts';
import { type OpenPage, openPages, PageFault, pageKeyOf } from '../../plan/pages.ts';
import { isRebuildMark, REBUILD_KIND } from '../../plan/rebuild.ts';
import { stateProblem } from '../../plan/state.ts';
import type { Txn } from '../../plan/transaction.ts';
import { backOff, endOf, getOrNull, type RunParts, withDeadline } from '../records/index.ts';
import { withDamagedPart } from './catalog-damage.ts';
import { CatalogRow, highestOf, ROW_LENGTH } from './catalog-row.ts';
import { DoubtfulNames } from './doubtful-names.ts';
import { type CatalogAnswer, EMPTY_HEAD, type Head, type Question } from './head.ts';
import { PageReader } from './pages.ts';
import { type AppendResult, Sending, type SendMemory } from './sending.ts';

/** Missing keys that a message names. */
const KEYS_NAMED_MAX = 10;

/**
 * Entries that pruning keeps: few enough that one list page shows them all. The ring needs 256; the
 * others are kept for people who read the log.
 */
const ENTRIES_KEPT = 320;
const PRUNE_EVERY = 64;
const PRUNE_TIMEOUT_MS = 5000;

const ADVICE_ANOTHER_RUN = [
  'since this manager was opened, the run was removed and begun again here, or its catalog was rebuilt',
  'this manager writes nothing more: open a new one, which reads the run that is here now',
];

/** An entry as it is listed. The store's clock gives the time at which it was created. */
export interface ListedEntry {
  readonly seq: number;
  readonly createdAtMs: number;
  readonly etag: string;
}

interface SeenEntry {
  readonly head: Head;
  /** With which it was listed; `undefined`: it was not listed yet. */
  readonly etag: string | undefined;
}

export class Catalog {
  readonly #run: RunParts;
  #seen: SeenEntry;
  #storeTimeMs = 0;
  /** The entries of the last listing. */
  #listed: readonly ListedEntry[] = [];
  #isAllListed = false;
  readonly #entries: DoubtfulNames<number>;
  readonly #pages: PageReader;
  readonly #row: CatalogRow;
  #pruning: Promise<void> = Promise.resolve();

  /** `runId`: the only run that may be here. Default: the one that is found first. */
  constructor(run: RunParts, runId = '') {
    this.#run = run;
    this.#seen = { head: { ...EMPTY_HEAD, runId }, etag: undefined };
    // A changed name of the newest entry would make an older one the latest.
    this.#entries = new DoubtfulNames(run, catalogPrefix, parseCatalogKey);
    this.#pages = new PageReader(run);
    this.#row = new CatalogRow(run, (afterSeq, signal) => this.listSeqs(signal, afterSeq));
  }

  /**
   * Answers a question about the newest state, or about `from` if it is given and its pages are
   * still there. If the question needs pages, they are read and the question is asked again. It may
   * be called several times and must have no side effects.
   *
   * `Corrupt`: a page of the newest entry is missing or damaged. Errors that the question throws
   * pass through. Cost: as `read`, and one GET for each page that was not read lately.
   */
  async ask<T>(
    question: Question<T>,
    signal: AbortSignal | undefined,
    from?: Head,
  ): Promise<CatalogAnswer<T>> {
    let head = from ?? (await this.read(signal));
    let open: readonly OpenPage[] = [];
    for (;;) {
      try {
        return { answer: question({ ...head, state: openPages(head.state, open) }, open), head };
      } catch (error) {
        if (!(error instanceof PageFault)) throw error;
        const pages = await withDamagedPart('newest', this.#pages.read(error.pages, head.runId, signal));
        const missing = error.pages.filter((_, index) => pages[index] === null);
        if (missing.length === 0) open = [...open, ...pages.filter((page) => page !== null)];
        else [head, open] = [await this.#newerThan(head, missing, signal), []];
      }
    }
  }

  /**
   * Reads a newer entry. If a page is missing, a newer entry has replaced it and a sweep has
   * deleted it. `Corrupt`: there is no newer entry, so the page is lost.
   */
  async #newerThan(head: Head, pages: readonly PageRef[], signal: AbortSignal | undefined): Promise<Head> {
    const newer = await this.read(signal);
    if (newer.seq > head.seq) return newer;
    const keys = pages.map(pageKeyOf);
    // The context names the pages and not the entry: the entry is intact, and restoring it would
    // not help.
    const [key = ''] = keys;
    const named = keys.slice(0, KEYS_NAMED_MAX);
    const context = { store: this.#run.store.uri, key, keys: named, catalog: 'newest' };
    const what = keys.length > 1 ? `${keys.length} pages that are missing` : 'a page that is missing';
    const more = keys.length > named.length ? ', …' : '';
    throw new CheckpointError(
      'Corrupt',
      `${catalogKey(head.seq)} refers to ${what}: ${named.join(', ')}${more}`,
      { context },
    );
  }

  /** The store's clock when the catalog was last listed, milliseconds since 1970; 0 before that. */
  get storeTimeMs(): number {
    return this.#storeTimeMs;
  }

  /**
   * All entries that exist, oldest first. Cost: none after a first read, which lists all of them;
   * else one list page.
   */
  async listAll(signal: AbortSignal | undefined): Promise<readonly ListedEntry[]> {
    return this.#isAllListed ? this.#listed : this.#list(signal);
  }

  /** The newest entry that this process has read or written. */
  get seen(): Head {
    return this.#seen.head;
  }

  /**
   * Reads the newest entry: one list page, and one GET unless it is the one seen last.
   * `StoreRegressed`: the store has lost an entry that it has shown before, or that the newest
   * entry follows. `Corrupt`: the newest entry is damaged, or it is of another run.
   */
  async read(signal: AbortSignal | undefined): Promise<Head> {
    const { clock, settings } = this.#run;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'reading the catalog', signal };
    return withDeadline(bounds, (until) => this.#read(until));
  }

  async #read(signal: AbortSignal): Promise<Head> {
    for (let repeats = 0; ; repeats++) {
      const seen = this.#seen;
      const listed = await this.#list(signal, Math.max(0, seen.head.seq - ROW_LENGTH));
      const seqs = listed.map(({ seq }) => seq);
      const highest = highestOf(seqs);
      await this.#assertSeenKept(seen, listed, signal);
      if (highest === 0) this.#assertMayBeEmpty();
      if (highest === seen.head.seq) return seen.head;
      const entry = await withDamagedPart('newest', this.entry(highest, signal));
      if (entry && (await this.#row.isNewest(entry, seqs, signal))) return this.remember(entry, listed);
      // A higher entry exists: this one may have been pruned between LIST and GET.
      await backOff(this.#run, repeats, signal);
    }
  }

  /**
   * `seen`: what had been seen before the listing began. Another call may have seen more since.
   * `StoreRegressed`: the entry is missing, or as `#assertSeenSame`.
   */
  async #assertSeenKept(seen: SeenEntry, listed: readonly ListedEntry[], signal: AbortSignal): Promise<void> {
    const { seq } = seen.head;
    if (seq === 0) return;
    const seqs = listed.map((each) => each.seq);
    if (seqs.includes(seq)) return this.#assertSeenSame(seen, listed, signal);
    // Another run has a catalog of its own, which may be shorter. So all of it is listed, and
    // `entry` rejects what is not of this run.
    const all = highestOf(seqs) < seq ? await this.listSeqs(signal) : seqs;
    const highest = highestOf(all);
    if (highest > 0 && highest < seq) await this.entry(highest, signal);
    this.#row.assertKept(seq, all);
  }

  /**
   * Checks that an entry seen before is the same, if the listing has it. A run that was removed and
   * begun again at this place uses its numbers again.
   *
   * `Corrupt`: the catalog is of another run now. `StoreRegressed`: another entry of this run has
   * its number. Cost: no request if the entry is listed with the same etag.
   */
  async #assertSeenSame(seen: SeenEntry, listed: readonly ListedEntry[], signal: AbortSignal): Promise<void> {
    const { seq, entryId } = seen.head;
    const etag = etagOf(listed, seq);
    if (etag === undefined || etag === seen.etag) return;
    const entry = await withDamagedPart('newest', this.entry(seq, signal));
    // It may have been pruned since the listing.
    if (entry === null) return;
    if (entry.entryId !== entryId) throw this.#row.replaced(seq);
    // The same bytes were written again, as by a restore from a backup.
    if (this.#seen === seen) this.#seen = { ...seen, etag };
  }

  /** `StoreRegressed`: this manager is for a run that was begun, so there is an entry of it. */
  #assertMayBeEmpty(): void {
    const { runId } = this.seen;
    if (runId === '') return;
    const advice = ['if the run was removed on purpose, open a new manager: it begins a new run'];
    throw new CheckpointError('StoreRegressed', `run ${runId} is no longer here: its catalog is empty`, {
      context: { store: this.#run.store.uri, advice },
    });
  }

  /** One entry by number. `null`: it does not exist (pruned, or never written). */
  async entry(seq: number, signal: AbortSignal | undefined): Promise<CatalogEntry | null> {
    const key = catalogKey(seq);
    const bytes = await getOrNull(this.#run.records, key, signal);
    if (!bytes) return null;
    const entry = decodeRecord('catalog-entry', bytes, { key, store: this.#run.store.uri });
    const context = { store: this.#run.store.uri, key };
    this.#assertPlaced(entry, seq, context);
    const contradiction = stateProblem(entry.state);
    if (contradiction)
      throw new CheckpointError('Corrupt', `${key} contradicts itself: ${contradiction}`, { context });
    return entry;
  }

  /** `Corrupt`: an intact entry that has another number, or is of another run than those before. */
  #assertPlaced(entry: CatalogEntry, seq: number, context: ErrorContext): void {
    const fail = (what: string, more: ErrorContext = {}) => {
      const message = `${context.key} is not what it should be: ${what}`;
      throw new CheckpointError('Corrupt', message, { context: { ...context, isIntact: true, ...more } });
    };
    if (entry.seq !== seq) {
      if (!isRebuildMark(entry, seq)) fail(`it says that it is entry ${entry.seq}`);
      fail('it is the mark of a rebuild that has not ended; run the same rebuild again to finish it');
    }
    const { runId } = this.seen;
    if (runId === '' || entry.runId === runId) return;
    const isRebuilt = entry.transaction.kind === REBUILD_KIND ? ', since the catalog was rebuilt' : '';
    fail(`it is of run ${entry.runId}, not ${runId}${isRebuilt}`, {
      catalog: 'another-run',
      advice: ADVICE_ANOTHER_RUN,
    });
  }

  /** Numbers of all existing entries above `afterSeq`, ascending. Cost: see `DoubtfulNames`. */
  async listSeqs(signal: AbortSignal | undefined, afterSeq = 0): Promise<number[]> {
    return (await this.#list(signal, afterSeq)).map(({ seq }) => seq);
  }

  async #list(signal: AbortSignal | undefined, afterSeq = 0): Promise<readonly ListedEntry[]> {
    const startAfter = afterSeq > 0 ? catalogKey(afterSeq) : undefined;
    const { found, storeTimeMs } = await this.#entries.list({ startAfter, signal });
    this.#storeTimeMs = storeTimeMs || this.#storeTimeMs;
    this.#isAllListed = startAfter === undefined;
    const listed = found.map(({ object: { createdAtMs, etag }, parsed }) => ({
      ...{ seq: parsed, createdAtMs, etag },
    }));
    this.#listed = listed;
    return listed;
  }

  /**
   * Decides and writes: evaluates `txn` on the newest state and appends the result. Repeats this
   * until the result is written, the decision is different, or the outcome can no longer be known.
   * `head`: a state just read, to save reading it again. `memory`: that of earlier calls with this
   * transaction; default: there were no earlier calls.
   *
   * An error is thrown only if nothing was sent, or if what was sent certainly had no effect.
   */
  async append(
    txn: Txn,
    options: { runId: string; head?: Head; memory?: SendMemory; signal: AbortSignal | undefined },
  ): Promise<AppendResult> {
    const send = new Sending(this.#run, this, txn, options);
    const { clock, settings } = this.#run;
    const bounds = {
      clock,
      timeoutMs: settings.recordTimeoutMs,
      what: `the ${txn.kind} decision`,
      signal: options.signal,
    };
    try {
      const result = await withDeadline(bounds, (signal) => send.run(options.head, signal));
      if (result.kind === 'committed') this.#pruneInBackground(result.head.seq);
      return result;
    } catch (error) {
      if (!send.mayHaveTakenEffect) throw error;
      return { kind: 'unknown', head: null, token: send.token, cause: endOf(error) };
    }
  }

  /** Waits for pruning in the background. Never throws. */
  async settled(): Promise<void> {
    await this.#pruning;
  }

  /**
   * Deletes the oldest entries now and then, so that the newest is always on the first list page.
   * No save waits for this. It is safe if two processes prune at once, or if pruning fails.
   */
  #pruneInBackground(seq: number): void {
    if (seq % PRUNE_EVERY !== 0) return;
    const { clock, logger } = this.#run;
    const bounds = { clock, timeoutMs: PRUNE_TIMEOUT_MS, what: 'pruning the catalog', signal: undefined };
    const prune = async (signal: AbortSignal) => {
      const old = (await this.listSeqs(signal)).filter((each) => each <= seq - ENTRIES_KEPT);
      if (old.length > 0) await this.#run.records.deleteMany(old.map(catalogKey), { signal });
    };
    this.#pruning = this.#pruning
      .then(() => withDeadline(bounds, prune))
      .catch((error: unknown) => logger.log('debug', `the catalog was not pruned: ${String(error)}`));
  }

  /**
   * Remembers an entry that the store has shown or acknowledged. `listed`: a listing that has it.
   */
  remember({ seq, entryId, runId, state }: CatalogEntry, listed: readonly ListedEntry[] = []): Head {
    const head: Head = { seq, entryId, runId, state };
    if (seq > this.seen.seq) this.#seen = { head, etag: etagOf(listed, seq) };
    return head;
  }

  /**
   * Call after a create that succeeded. The create may have reused the number of a pruned entry.
   * Then a higher entry exists, and only the ring of that entry shows whether this one took effect.
   * `StoreRegressed`, `Corrupt`: this entry or one that it follows is missing or was replaced, so
   * the outcome cannot be known.
   */
  async afterSuccess(entry: CatalogEntry, signal: AbortSignal): Promise<Head> {
    const seen = this.#seen;
    const listed = await this.#list(signal, Math.max(0, entry.seq - ROW_LENGTH));
    const seqs = listed.map(({ seq }) => seq);
    if (seen.head.seq === entry.seq - 1) await this.#assertSeenSame(seen, listed, signal);
    this.#row.assertKept(entry.seq, seqs);
    const isNewest = highestOf(seqs) <= entry.seq && (await this.#row.isNewest(entry, seqs, signal));
    return isNewest ? this.remember(entry, listed) : this.read(signal);
  }
}

function etagOf(listed: readonly ListedEntry[], seq: number): string | undefined {
  return listed.find((each) => each.seq === seq)?.etag;
}

/** Converts a rejection that a repeat cannot change into the error for the caller. */
export function rejectionError(
  rejection: Rejected,
  context: { store: string; version?: bigint; attempt?: string; writer?: number },
): CheckpointError {
  const { reason, message } = rejection;
  const overtakenBy = OVERTAKEN_BY[reason];
  const code = (
    {
      fenced: 'Fenced',
      'rolled-back': 'Fenced',
      superseded: 'Fenced',
      stale: 'Conflict',
      abandoned: 'Conflict',
      'base-gone': 'BaseGone',
      'world-size': 'WorldSizeMismatch',
      'receipts-changed': 'Unavailable',
      unknown: 'Conflict', // an earlier commit of this id; this call has sent nothing
      refused: 'Conflict',
    } as const
  )[reason];
  return new CheckpointError(code, message, { context: { ...context, ...(overtakenBy && { overtakenBy }) } });
}

const OVERTAKEN_BY: Readonly<Partial<Record<Rejected['reason'], ErrorContext['overtakenBy']>>> = {
  fenced: 'attempt',
  'rolled-back': 'rollback',
  superseded: 'process',
};
