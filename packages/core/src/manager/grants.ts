/**
 * Who exports the model: numbered grants, each created once and never changed. The highest is the one in force; for how long is for those to
 * judge who have watched it.
 */

import type { ProcessName } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { ObjectStore } from '../contract/object-store.ts';
import { decodeRecord, encodeRecord, grantKey, grantsPrefix, parseGrantKey } from '../format/index.ts';
import { type ObjectOptions, withRecords } from '../transfer/index.ts';
import { withDeadline } from './deadline.ts';
import { newId, type RecordIo } from './engine.ts';
import { backOff, createRecord, getOrNull, unknownRecord } from './records.ts';

export interface SaveGrant {
  /** 1 for the first; each has one more than the one before. */
  readonly seq: number;
  /** Drawn for this grant. */
  readonly id: string;
  readonly trainerId: string;
  /** 1 to 7 days. */
  readonly blockMs: number;
}

export interface Grants {
  /**
   * The highest; `null`: there is none yet. `seen`: what this has told before; the answer is that object itself if it still is the highest.
   * One list page for each 1,000 that were added since, and one GET for another than `seen`. `StoreRegressed`: the store shows less than it has
   * shown. `Corrupt`: the highest cannot be read.
   */
  newest(seen: SaveGrant | null): Promise<SaveGrant | null>;
  /** Creates number `seq`, of which only one can succeed. Resolves to what then has that number. A lost reply is settled by reading back. */
  append(
    seq: number,
    to: Pick<SaveGrant, 'trainerId' | 'blockMs'>,
  ): Promise<{ readonly grant: SaveGrant; readonly isOurs: boolean }>;
}

export interface GrantOptions extends ObjectOptions {
  /** For people who look for a lost trainer. */
  process?: ProcessName | undefined;
}

/**
 * The grants of a run, for as long as `work` takes: at most `settings.recordTimeoutMs`, then it is `TimedOut`. What fails for a while is
 * repeated. `OutcomeUnknown`: a grant was on its way, and may come to be; `recover` takes the token.
 */
export function withGrants<T>(
  store: ObjectStore,
  { process = { host: '', pid: 0 }, ...options }: GrantOptions,
  work: (grants: Grants) => Promise<T>,
): Promise<T> {
  return withRecords(store, options, (io) => {
    const { clock, settings } = io;
    const timeoutMs = settings.recordTimeoutMs;
    return withDeadline(
      { clock, timeoutMs, what: 'asking who saves the model', signal: options.signal },
      (until) => work(new GrantLog(io, process, until)),
    );
  });
}

class GrantLog implements Grants {
  readonly #io: RecordIo;
  readonly #process: ProcessName;
  readonly #signal: AbortSignal;

  constructor(io: RecordIo, process: ProcessName, signal: AbortSignal) {
    this.#io = io;
    this.#process = process;
    this.#signal = signal;
  }

  async newest(seen: SaveGrant | null): Promise<SaveGrant | null> {
    for (let attempt = 0; ; attempt++) {
      const highest = await this.#highestSeq(seen?.seq ?? 0);
      if (highest < (seen?.seq ?? 0)) throw this.#regressed(seen?.seq ?? 0, highest);
      if (highest === (seen?.seq ?? 0)) return seen;
      const key = grantKey(highest);
      const bytes = await getOrNull(this.#io.records, key, this.#signal);
      if (bytes) return this.#read(highest, bytes);
      await backOff(this.#io, attempt, this.#signal); // collected between LIST and GET: there is a higher one
    }
  }

  async append(
    seq: number,
    { trainerId, blockMs }: Pick<SaveGrant, 'trainerId' | 'blockMs'>,
  ): Promise<{ readonly grant: SaveGrant; readonly isOurs: boolean }> {
    const grant = { seq, id: newId(this.#io), trainerId, blockMs };
    const { bytes } = encodeRecord('grant', { ...grant, ...this.#process });
    const key = grantKey(seq);
    const decides = unknownRecord(this.#io, { what: `grant ${seq}`, key, bytes });
    const created = await createRecord(this.#io, key, bytes, this.#signal, decides);
    return created.isOurs
      ? { grant, isOurs: true }
      : { grant: this.#read(seq, created.bytes), isOurs: false };
  }

  /** 0: none is there. */
  async #highestSeq(seenSeq: number): Promise<number> {
    const startAfter = seenSeq > 1 ? grantKey(seenSeq - 1) : undefined;
    let highest = 0;
    for await (const { objects } of this.#io.records.list(grantsPrefix, {
      startAfter,
      signal: this.#signal,
    })) {
      for (const { key } of objects) highest = Math.max(highest, parseGrantKey(key) ?? 0);
    }
    return highest;
  }

  #read(seq: number, bytes: Uint8Array): SaveGrant {
    const key = grantKey(seq);
    const where = { key, store: this.#io.records.uri };
    const { seq: found, id, trainerId, blockMs } = decodeRecord('grant', bytes, where);
    if (found !== seq) {
      throw new CheckpointError(
        'Corrupt',
        `${key} is not what belongs there: it says that it is grant ${found}`,
        {
          context: where,
        },
      );
    }
    return { seq, id, trainerId, blockMs };
  }

  #regressed(seenSeq: number, highest: number): CheckpointError {
    const shown = highest === 0 ? 'none' : `grant ${highest} as the highest`;
    return new CheckpointError(
      'StoreRegressed',
      `the store has shown ${grantKey(seenSeq)} and now shows ${shown}; nobody is elected until this process starts anew`,
      { context: { store: this.#io.records.uri, key: grantKey(seenSeq) } },
    );
  }
}
