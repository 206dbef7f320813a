/**
 * Sends one transaction to the catalog: evaluates it, sends it, and sends it again until its
 * outcome is known.
 */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError, isCheckpointError, throwIfAborted } from '../../contract/errors.ts';
import {
  type CatalogEntry,
  catalogKey,
  encodeRecord,
  SEQ_MAX,
  type State,
  type Transaction,
} from '../../format/index.ts';
import { apply } from '../../plan/apply.ts';
import type { Applied, Decision } from '../../plan/decision.ts';
import { closePages, type NewPage, type OpenPage } from '../../plan/pages.ts';
import { TXN_RING_LENGTH } from '../../plan/state.ts';
import type { Txn } from '../../plan/transaction.ts';
import {
  backOff,
  createAsSent,
  createRecord,
  isUnanswered,
  machineTimeMs,
  newId,
  type RunParts,
  withLastLook,
  writeToken,
} from '../records/index.ts';
import type { CatalogAnswer, Head, Question } from './head.ts';

export type AppendResult =
  | { readonly kind: 'committed'; readonly head: Head }
  | {
      readonly kind: 'decided';
      readonly decision: Exclude<Decision, { kind: 'applied' }>;
      readonly head: Head;
    }
  /**
   * It was sent, but the catalog can no longer tell whether it took effect. The token names the
   * transaction.
   */
  | {
      readonly kind: 'unknown';
      readonly head: Head | null;
      readonly token: string;
      readonly cause?: unknown;
    };

/**
 * What a process knows about the sends of one transaction. A caller that passes the same memory to
 * each call of `append` may repeat the transaction after an error. It is evaluated again only once
 * it is certain that no earlier send took effect.
 */
export interface SendMemory {
  /**
   * The entry on which the last send of unknown outcome was evaluated; `undefined`: every send is
   * known to have had no effect.
   */
  openOn: number | undefined;
}

/** The next state, closed, and the pages to create before it; or the decision why there is none. */
type Evaluated = ReturnType<typeof closePages> | { readonly decision: Exclude<Decision, Applied> };

/** What a sending needs of the catalog. */
interface EntryReader {
  read(signal: AbortSignal): Promise<Head>;
  ask<T>(question: Question<T>, signal: AbortSignal, head?: Head): Promise<CatalogAnswer<T>>;
  afterSuccess(entry: CatalogEntry, signal: AbortSignal): Promise<Head>;
}

/** For one transaction; used once. */
export class Sending {
  readonly #run: RunParts;
  readonly #catalog: EntryReader;
  readonly #txn: Txn;
  readonly #runId: string;
  readonly #memory: SendMemory;
  readonly #createdPages = new Set<string>();

  constructor(
    run: RunParts,
    catalog: EntryReader,
    txn: Txn,
    { runId, memory }: { runId: string; memory?: SendMemory },
  ) {
    this.#run = run;
    this.#catalog = catalog;
    this.#txn = txn;
    this.#runId = runId;
    this.#memory = memory ?? { openOn: undefined };
  }

  /** A create was sent and its outcome is unknown. */
  get mayHaveTakenEffect(): boolean {
    return this.#memory.openOn !== undefined;
  }

  get token(): string {
    const { id: txnId, kind } = this.#txn;
    const sentOn = this.#memory.openOn ?? 0;
    return writeToken({ of: 'decision', runId: this.#runId, txnId, kind, sentOn });
  }

  async run(given: Head | undefined, signal: AbortSignal): Promise<AppendResult> {
    let head = given ?? (await this.#catalog.read(signal));
    for (let repeats = 0; ; repeats++) {
      if (head.state.txnRing.includes(this.#txn.id)) return { kind: 'committed', head };
      if (!this.#isCoveredBy(head)) return { kind: 'unknown', head, token: this.token };
      throwIfAborted(signal);
      const asked = await this.#catalog.ask((view, open) => this.#evaluate(view, open), signal, head);
      if (asked.head.seq !== head.seq) {
        head = asked.head; // a page of the other head was gone
        continue;
      }
      const { answer } = asked;
      if ('decision' in answer) return { kind: 'decided', decision: answer.decision, head };
      await this.#createPages(answer.pages, signal);
      const sent = await this.#create(this.#entry(head, answer.state), signal);
      head = sent.isAcknowledged
        ? await withLastLook(this.#run.clock, signal, (until) =>
            this.#catalog.afterSuccess(sent.entry, until),
          )
        : await this.#catalog.read(signal);
      if (head.seq > asked.head.seq) continue;
      if (sent.error && !this.mayHaveTakenEffect) throw sent.error;
      // A server of another kind answered. It will answer so again.
      if (isCheckpointError(sent.error, 'InvalidConfig')) throw sent.error;
      await backOff(this.#run, repeats, signal, sent.error);
    }
  }

  /**
   * `head` does not list the transaction. If its ring reaches back to the entry of the open send,
   * that send had no effect and never will, because its entry number is taken. The send is then
   * closed.
   */
  #isCoveredBy(head: Head): boolean {
    const { openOn } = this.#memory;
    if (openOn === undefined || head.seq <= openOn) return true;
    if (head.seq - openOn > TXN_RING_LENGTH) return false;
    this.#memory.openOn = undefined;
    return true;
  }

  #evaluate(view: Head, open: readonly OpenPage[]): Evaluated {
    if (view.seq === SEQ_MAX) throw this.#noEntryLeft(view.seq);
    const seq = view.seq + 1;
    const decision = apply(view.state, this.#txn, seq);
    if (decision.kind !== 'applied') return { decision };
    const { entryCheckpointsMax } = this.#run.settings;
    return closePages(decision.state, open, { runId: this.#runId, seq, entryCheckpointsMax });
  }

  /**
   * Makes the pages durable before the entry that refers to them is sent. A page that this call has
   * created is not created again.
   */
  async #createPages(pages: readonly NewPage[], signal: AbortSignal): Promise<void> {
    const wanted = pages.filter(({ key }) => !this.#createdPages.has(key));
    const { preferredConcurrency } = this.#run.store.capabilities;
    await atATime(wanted, preferredConcurrency, async ({ key, bytes }) => {
      const created = await createRecord(this.#run, key, bytes, signal);
      if (!created.isOurs) {
        throw new CheckpointError('Corrupt', `${key} already exists, with bytes that do not match its name`, {
          context: { store: this.#run.store.uri, key },
        });
      }
      this.#createdPages.add(key);
    });
  }

  /** No run makes so many decisions. A forged entry may have the highest number. */
  #noEntryLeft(seq: number): CheckpointError {
    const message = `no catalog entry is left: ${seq}, the highest number, is taken`;
    return new CheckpointError('Conflict', message, { context: { store: this.#run.store.uri } });
  }

  #entry(head: Head, state: State): CatalogEntry {
    return {
      format: undefined,
      runId: this.#runId,
      seq: head.seq + 1,
      entryId: newId(this.#run),
      parentId: head.entryId,
      transaction: this.#transaction(state),
      state,
    };
  }

  #transaction(state: State): Transaction {
    const txn = this.#txn;
    return {
      id: txn.id,
      kind: txn.kind,
      lineage: state.lineage,
      epoch: state.epoch,
      checkpoint: 'checkpoint' in txn ? txn.checkpoint : undefined,
      checkpoints: 'checkpoints' in txn ? txn.checkpoints : [],
      reason: 'reason' in txn ? txn.reason : '',
      host: this.#run.process.host,
      pid: this.#run.process.pid,
      atMs: machineTimeMs(this.#run),
      attempt: state.attempt,
    };
  }

  async #create(
    entry: CatalogEntry,
    signal: AbortSignal,
  ): Promise<{ isAcknowledged: boolean; entry: CatalogEntry; error?: CheckpointError }> {
    const { bytes } = encodeRecord('catalog-entry', entry);
    const openBefore = this.#memory.openOn;
    // Set before the request: the caller then knows about it, however this call ends.
    this.#memory.openOn = entry.seq - 1;
    try {
      await createAsSent(this.#run, catalogKey(entry.seq), bytes, signal);
      return { isAcknowledged: true, entry };
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      if (isCheckpointError(error, 'AlreadyExists') || isUnanswered(error))
        return { isAcknowledged: false, entry, error };
      this.#memory.openOn = openBefore; // a permanent error guarantees that the send had no effect
      return { isAcknowledged: false, entry, error };
    }
  }
}
