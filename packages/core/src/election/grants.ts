/**
 * Decides who exports the model: numbered grants, each created once and never changed. The highest
 * grant is in force. Processes that have watched it judge for how long.
 */

import type { ProcessName } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { ObjectStore } from '../contract/object-store.ts';
import { decodeRecord, encodeRecord, grantKey, grantsPrefix, parseGrantKey } from '../format/index.ts';
import {
  backOff,
  createRecord,
  getOrNull,
  newId,
  type RecordIo,
  unknownRecord,
  withDeadline,
} from '../manager/records/index.ts';
import { type ObjectOptions, withRecords } from '../transfer/index.ts';

export interface SaveGrant {
  /** 1 for the first grant; each later grant has one more than the grant before. */
  readonly seq: number;
  /** Random, drawn for this grant. */
  readonly id: string;
  readonly trainerId: string;
  /** 1 to 7 days. */
  readonly blockMs: number;
}

export interface Grants {
  /**
   * The highest grant; `null`: there is no grant yet. `seen`: an earlier answer of this method. If
   * it still is the highest, the answer is that same object.
   *
   * Cost: one list page per 1,000 grants added since, and one GET unless the highest is `seen`.
   * `StoreRegressed`: the store shows less than it has shown before. `Corrupt`: the highest grant
   * cannot be read.
   */
  newest(seen: SaveGrant | null): Promise<SaveGrant | null>;
  /**
   * Creates grant `seq`; only one create of a number can succeed. Resolves to the grant that then
   * has this number. After a lost reply the grant is read back.
   */
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
 * Gives `work` the grants of a run. `TimedOut` after `settings.recordTimeoutMs`. Temporary errors
 * are retried. `OutcomeUnknown`: a grant was sent and may still take effect; `recover` takes the
 * token.
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
      { clock, timeoutMs, what: 'asking which trainer saves the model', signal: options.signal },
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
    for (let repeats = 0; ; repeats++) {
      const highest = await this.#highestSeq(seen?.seq ?? 0);
      if (highest < (seen?.seq ?? 0)) throw this.#regressed(seen?.seq ?? 0, highest);
      if (highest === (seen?.seq ?? 0)) return seen;
      const key = grantKey(highest);
      const bytes = await getOrNull(this.#io.records, key, this.#signal);
      if (bytes) return this.#read(highest, bytes);
      // It was collected between LIST and GET: a higher one exists.
      await backOff(this.#io, repeats, this.#signal);
    }
  }

  async append(
    seq: number,
    { trainerId, blockMs }: Pick<SaveGrant, 'trainerId' | 'blockMs'>,
  ): Promise<{ readonly grant: SaveGrant; readonly isOurs: boolean }> {
    if (seq > Number.MAX_SAFE_INTEGER) {
      throw new CheckpointError('Conflict', `no grant is left: ${seq - 1}, the highest number, is taken`);
    }
    const grant = { seq, id: newId(this.#io), trainerId, blockMs };
    const { bytes } = encodeRecord('grant', { ...grant, ...this.#process });
    const key = grantKey(seq);
    const decides = unknownRecord(this.#io, { what: `grant ${seq}`, key, bytes });
    const created = await createRecord(this.#io, key, bytes, this.#signal, decides);
    return created.isOurs
      ? { grant, isOurs: true }
      : { grant: this.#read(seq, created.bytes), isOurs: false };
  }

  /** 0 if there is no grant. */
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
        `${key} is not what it should be: it says that it is grant ${found}`,
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
      `the store has shown ${grantKey(seenSeq)} and now shows ${shown}; no trainer is elected until this process starts again`,
      { context: { store: this.#io.records.uri, key: grantKey(seenSeq) } },
    );
  }
}
