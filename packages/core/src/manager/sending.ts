/** One transaction on its way into the catalog: evaluated, sent, and sent again, until it is known what became of it. */

import { CheckpointError, isCheckpointError, throwIfAborted } from '../contract/errors.ts';
import {
  type CatalogEntry,
  catalogKey,
  crc32c,
  encodeRecord,
  type State,
  type Transaction,
} from '../format/index.ts';
import { apply } from '../plan/apply.ts';
import type { Applied, Decision } from '../plan/decision.ts';
import { closePages, type NewPage, type OpenPage } from '../plan/pages.ts';
import { TXN_RING_LENGTH } from '../plan/state.ts';
import type { Txn } from '../plan/transaction.ts';
import type { Catalog, Head } from './catalog.ts';
import { withLastLook } from './deadline.ts';
import { type Engine, machineTimeMs, newId } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { backOff, createRecord, isUnanswered } from './records.ts';
import { writeToken } from './tokens.ts';

export type AppendResult =
  | { readonly kind: 'committed'; readonly head: Head }
  | {
      readonly kind: 'decided';
      readonly decision: Exclude<Decision, { kind: 'applied' }>;
      readonly head: Head;
    }
  /** It was sent, and whether it took effect cannot be known from the catalog any more. The token is of the transaction. */
  | {
      readonly kind: 'unknown';
      readonly head: Head | null;
      readonly token: string;
      readonly cause?: unknown;
    };

/**
 * What a process knows of the sends of one transaction. A caller that passes the same memory to each call of `append` may repeat the
 * transaction after an error. It is evaluated anew only once it is certain that no earlier send took effect.
 */
export interface SendMemory {
  /** Entry on which the last send of unknown effect was evaluated; `undefined`: every send is known to have had no effect. */
  openOn: number | undefined;
}

/** The next state, closed, and the pages to create before it; or why there is none. */
type Evaluated = ReturnType<typeof closePages> | { readonly decision: Exclude<Decision, Applied> };

/** Used once. */
export class Sending {
  readonly #engine: Engine;
  readonly #catalog: Pick<Catalog, 'read' | 'ask' | 'afterSuccess'>;
  readonly #txn: Txn;
  readonly #runId: string;
  readonly #memory: SendMemory;
  readonly #createdPages = new Set<string>();

  constructor(
    engine: Engine,
    catalog: Pick<Catalog, 'read' | 'ask' | 'afterSuccess'>,
    txn: Txn,
    { runId, memory }: { runId: string; memory?: SendMemory },
  ) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.#txn = txn;
    this.#runId = runId;
    this.#memory = memory ?? { openOn: undefined };
  }

  /** A create was sent whose effect is not known. */
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
    for (let attempt = 0; ; attempt++) {
      if (head.state.txnRing.includes(this.#txn.id)) return { kind: 'committed', head };
      if (!this.#isCoveredBy(head)) return { kind: 'unknown', head, token: this.token };
      throwIfAborted(signal);
      const asked = await this.#catalog.ask((view, open) => this.#evaluate(view, open), signal, head);
      if (asked.head.seq !== head.seq) {
        head = asked.head; // a page of the other was gone
        continue;
      }
      const { answer } = asked;
      if ('decision' in answer) return { kind: 'decided', decision: answer.decision, head };
      await this.#createPages(answer.pages, signal);
      const sent = await this.#create(this.#entry(head, answer.state), signal);
      head = sent.isAcknowledged
        ? await withLastLook(this.#engine.clock, signal, (until) =>
            this.#catalog.afterSuccess(sent.entry, until),
          )
        : await this.#catalog.read(signal);
      if (head.seq > asked.head.seq) continue;
      if (sent.error && !this.mayHaveTakenEffect) throw sent.error;
      await backOff(this.#engine, attempt, signal, sent.error);
    }
  }

  /**
   * The ring of `head`, which does not hold the transaction, reaches back to the entry of the open send. Then that send had no effect,
   * and never will have: its number is taken. It is closed.
   */
  #isCoveredBy(head: Head): boolean {
    const { openOn } = this.#memory;
    if (openOn === undefined || head.seq <= openOn) return true;
    if (head.seq - openOn > TXN_RING_LENGTH) return false;
    this.#memory.openOn = undefined;
    return true;
  }

  #evaluate(view: Head, open: readonly OpenPage[]): Evaluated {
    const seq = view.seq + 1;
    const decision = apply(view.state, this.#txn, seq);
    if (decision.kind !== 'applied') return { decision };
    const { entryCheckpointsMax } = this.#engine.settings;
    return closePages(decision.state, open, { runId: this.#runId, seq, entryCheckpointsMax });
  }

  /** Durable before the entry that refers to them is sent. A page of this number that this call has created is not created again. */
  async #createPages(pages: readonly NewPage[], signal: AbortSignal): Promise<void> {
    const wanted = pages.filter(({ key }) => !this.#createdPages.has(key));
    const { preferredConcurrency } = this.#engine.store.capabilities;
    await inBatches(wanted, preferredConcurrency, async ({ key, bytes }) => {
      const created = await createRecord(this.#engine, key, bytes, signal);
      if (!created.isOurs) {
        throw new CheckpointError('Corrupt', `${key} is there already, with other bytes than its name says`, {
          context: { store: this.#engine.store.uri, key },
        });
      }
      this.#createdPages.add(key);
    });
  }

  #entry(head: Head, state: State): CatalogEntry {
    return {
      format: undefined,
      runId: this.#runId,
      seq: head.seq + 1,
      entryId: newId(this.#engine),
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
      host: this.#engine.process.host,
      pid: this.#engine.process.pid,
      atMs: machineTimeMs(this.#engine),
      attempt: state.attempt,
    };
  }

  async #create(
    entry: CatalogEntry,
    signal: AbortSignal,
  ): Promise<{ isAcknowledged: boolean; entry: CatalogEntry; error?: CheckpointError }> {
    const { bytes } = encodeRecord('catalog-entry', entry);
    const openBefore = this.#memory.openOn;
    this.#memory.openOn = entry.seq - 1; // before the request: whatever happens to this call, the caller knows of it
    try {
      await this.#engine.records.create(catalogKey(entry.seq), bytes, { crc32c: crc32c(bytes), signal });
      return { isAcknowledged: true, entry };
    } catch (error) {
      if (!isCheckpointError(error)) throw error;
      if (isCheckpointError(error, 'AlreadyExists') || isUnanswered(error))
        return { isAcknowledged: false, entry, error };
      this.#memory.openOn = openBefore; // a permanent error promises that it had no effect
      return { isAcknowledged: false, entry, error };
    }
  }
}
