/**
 * Checks that entries before the newest one are there. If one is missing, the store has lost
 * acknowledged writes.
 */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { type CatalogEntry, catalogKey, decodeRecord } from '../../format/index.ts';
import { FIRST_SEQ } from '../../plan/rebuild.ts';
import { getOrNull, type RunParts } from '../records/index.ts';

/** No client deletes any of this many newest entries; docs/format.md guarantees it. */
const ENTRIES_SURE = 64;
/**
 * This many newest entries have consecutive numbers, or all entries back to the one that begins the
 * catalog. After a catalog was lost, a request that is carried out late can bring back one entry. A
 * request that is carried out twice can bring back another. They cannot fill a whole row.
 */
export const ROW_LENGTH = 4;

export class CatalogRow {
  readonly #run: RunParts;
  readonly #listSeqs: (afterSeq: number, signal: AbortSignal) => Promise<readonly number[]>;
  /** Number of the entry that begins a rebuilt catalog, once it is known. */
  #beginning: number | undefined;

  constructor(
    run: RunParts,
    listSeqs: (afterSeq: number, signal: AbortSignal) => Promise<readonly number[]>,
  ) {
    this.#run = run;
    this.#listSeqs = listSeqs;
  }

  /**
   * `StoreRegressed`: entry `seq`, which was there, is not among those `listed`. No error if at
   * least `ENTRIES_SURE` entries were created after it: it may have been pruned.
   */
  assertKept(seq: number, listed: readonly number[]): void {
    const highest = highestOf(listed);
    if (!listed.includes(seq) && highest - seq < ENTRIES_SURE) throw this.#regressed(seq, highest);
  }

  /**
   * Whether `entry`, the newest of those `listed`, still is the newest. `false`: a later request
   * has shown that it is not. `listed`: numbers that the store has shown, with the `ROW_LENGTH` up
   * to this one.
   *
   * `StoreRegressed`: the entry is the newest, but an entry that it follows is missing. Its writer
   * did not know that the catalog was lost, so nothing may be built on it.
   *
   * Cost: no request if the numbers up to this one form a row. One GET while it is number 2 or 3,
   * and one in a rebuilt catalog.
   */
  async isNewest(entry: CatalogEntry, listed: readonly number[], signal: AbortSignal): Promise<boolean> {
    const { seq } = entry;
    let seqs = listed;
    for (let look = 0; ; look++) {
      // Only the highest entry counts; it may be of a rebuilt catalog.
      if (highestOf(seqs) > seq) return false;
      const first = firstInRow(seqs, seq);
      if (seq - first >= ROW_LENGTH - 1 || first === this.#beginning) return true;
      const begins = first === seq ? entry.parentId === '' : await this.#begins(first, entry, signal);
      if (begins === null) return false;
      if (begins) return true;
      if (look > 0 || first === FIRST_SEQ) throw this.#regressed(Math.max(FIRST_SEQ, first - 1), seq);
      // A listing may miss an entry that is created meanwhile and still show the next one.
      seqs = await this.#listSeqs(Math.max(0, seq - ROW_LENGTH), signal);
    }
  }

  /**
   * Whether the catalog of `newest` began with entry `first`. The mark of a rebuild does not begin
   * a catalog. `null`: the entry is gone, as a mark is after its rebuild.
   */
  async #begins(first: number, newest: CatalogEntry, signal: AbortSignal): Promise<boolean | null> {
    const key = catalogKey(first);
    const bytes = await getOrNull(this.#run.records, key, signal);
    if (!bytes) return null;
    try {
      const { seq, parentId, runId } = decodeRecord('catalog-entry', bytes, {
        key,
        store: this.#run.store.uri,
      });
      const begins = seq === first && parentId === '' && runId === newest.runId;
      // Do not remember entry 1: it may be a mark the next time.
      if (begins && first > FIRST_SEQ) this.#beginning = first;
      return begins;
    } catch (error) {
      if (isCheckpointError(error, 'Corrupt')) return true; // damaged, but only its place matters
      throw error;
    }
  }

  /** The error if the run has another entry `seq` than it had. */
  replaced(seq: number): CheckpointError {
    const message = `entry ${seq} of the catalog is another one than before: the store has lost acknowledged writes`;
    return new CheckpointError('StoreRegressed', message, {
      context: { store: this.#run.store.uri, key: catalogKey(seq) },
    });
  }

  /** `lost`: number of an entry that was there and that no client may delete yet. */
  #regressed(lost: number, found: number): CheckpointError {
    const there = found === 0 ? 'no entry at all' : `entry ${found}`;
    const why = `the store has lost acknowledged writes${found === 0 ? ', or the run was removed' : ''}`;
    return new CheckpointError(
      'StoreRegressed',
      `the catalog shows ${there}, but entry ${lost} is gone: ${why}`,
      { context: { store: this.#run.store.uri, key: catalogKey(lost) } },
    );
  }
}

/** The lowest number from which no number up to `seq` is missing. */
function firstInRow(seqs: readonly number[], seq: number): number {
  let first = seq;
  while (seqs.includes(first - 1)) first--;
  return first;
}

export function highestOf(seqs: readonly number[]): number {
  return seqs.reduce((highest, seq) => Math.max(highest, seq), 0);
}
