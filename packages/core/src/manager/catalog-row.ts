/** Which entries must be there beside the newest. Where one of them is gone, the store has lost acknowledged writes. */

import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import { type CatalogEntry, catalogKey, decodeRecord } from '../format/index.ts';
import { FIRST_SEQ } from '../plan/rebuild.ts';
import type { Engine } from './engine.ts';
import { getOrNull } from './records.ts';

/** No client deletes any of so many newest entries; docs/format.md promises it to all. */
const ENTRIES_SURE = 64;
/**
 * So many newest entries are in a row, or all from the one that begins the catalog. Where a catalog was lost, a request that is
 * carried out late brings one entry back, and one that is carried out twice another: not a row of so many.
 */
export const ROW_LENGTH = 4;

export class CatalogRow {
  readonly #engine: Engine;
  readonly #listSeqs: (afterSeq: number, signal: AbortSignal) => Promise<readonly number[]>;
  /** Number of the entry that begins a rebuilt catalog, once it is known. */
  #beginning: number | undefined;

  constructor(
    engine: Engine,
    listSeqs: (afterSeq: number, signal: AbortSignal) => Promise<readonly number[]>,
  ) {
    this.#engine = engine;
    this.#listSeqs = listSeqs;
  }

  /** Entry `seq` was there. It is among those `listed`, or so many came after it that it may have been pruned. */
  assertKept(seq: number, listed: readonly number[]): void {
    const highest = highestOf(listed);
    if (!listed.includes(seq) && highest - seq < ENTRIES_SURE) throw this.#regressed(seq, highest);
  }

  /**
   * Whether the entry, which was the newest of those `listed`, still is; `false`: another look has shown a higher one.
   * `StoreRegressed`: it is the newest, and one that it follows is gone. It is that of a writer which did not know that the
   * catalog was lost, and nothing may be built on it. `listed`: numbers that the store has shown, with the `ROW_LENGTH` up to
   * this one. Cost: nothing more where those are in a row, but a GET while it is number 2 or 3, and one in a rebuilt catalog.
   */
  async isNewest(entry: CatalogEntry, listed: readonly number[], signal: AbortSignal): Promise<boolean> {
    const { seq } = entry;
    let seqs = listed;
    for (let look = 0; ; look++) {
      if (highestOf(seqs) > seq) return false; // only that one tells what counts, and it may be of a rebuilt catalog
      const first = firstInRow(seqs, seq);
      if (seq - first >= ROW_LENGTH - 1 || first === this.#beginning) return true;
      const begins = first === seq ? entry.parentId === '' : await this.#begins(first, entry, signal);
      if (begins === null) return false;
      if (begins) return true;
      if (look > 0 || first === FIRST_SEQ) throw this.#regressed(Math.max(FIRST_SEQ, first - 1), seq);
      // A listing may miss an entry that is created meanwhile, and show the next.
      seqs = await this.#listSeqs(Math.max(0, seq - ROW_LENGTH), signal);
    }
  }

  /** The catalog of `newest` began with entry `first`. A mark begins none. `null`: it is gone; so is a mark once it has served. */
  async #begins(first: number, newest: CatalogEntry, signal: AbortSignal): Promise<boolean | null> {
    const key = catalogKey(first);
    const bytes = await getOrNull(this.#engine.records, key, signal);
    if (!bytes) return null;
    try {
      const { seq, parentId, runId } = decodeRecord('catalog-entry', bytes, {
        key,
        store: this.#engine.store.uri,
      });
      const begins = seq === first && parentId === '' && runId === newest.runId;
      if (begins && first > FIRST_SEQ) this.#beginning = first; // entry 1 may be a mark the next time
      return begins;
    } catch (error) {
      if (isCheckpointError(error, 'Corrupt')) return true; // an older entry is needed for nothing but its place
      throw error;
    }
  }

  /** `lost`: an entry that was there, and that no client deletes yet. */
  #regressed(lost: number, found: number): CheckpointError {
    const there = found === 0 ? 'no entry at all' : `entry ${found}`;
    return new CheckpointError(
      'StoreRegressed',
      `the catalog shows ${there}, but entry ${lost} is gone: the store has lost acknowledged writes`,
      { context: { store: this.#engine.store.uri, key: catalogKey(lost) } },
    );
  }
}

/** Of the numbers up to `seq` between which none is missing. */
function firstInRow(seqs: readonly number[], seq: number): number {
  let first = seq;
  while (seqs.includes(first - 1)) first--;
  return first;
}

export function highestOf(seqs: readonly number[]): number {
  return seqs.reduce((highest, seq) => Math.max(highest, seq), 0);
}
