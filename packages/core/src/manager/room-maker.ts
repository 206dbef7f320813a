/**
 * Decisions on a full store. A collection has to write before it may delete: that a checkpoint is removed stands in the catalog first. So
 * where there is no room for an entry, what is garbage already is deleted: that needs no decision. Where there is none of that either, the
 * store gives up what it keeps back for this.
 */

import { isCheckpointError } from '../contract/errors.ts';
import type { SweepResult } from '../contract/retention.ts';
import type { Catalog } from './catalog.ts';
import type { Engine } from './engine.ts';
import { sweep } from './sweep.ts';

type Counts = Pick<SweepResult, 'objectCount' | 'freedBytes' | 'uploadCount' | 'uploadBytes' | 'leaseCount'>;

export class RoomMaker {
  readonly #engine: Engine;
  readonly #catalog: Catalog;
  readonly #signal: AbortSignal | undefined;
  readonly #swept: SweepResult[] = [];

  constructor(engine: Engine, catalog: Catalog, signal: AbortSignal | undefined) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.#signal = signal;
  }

  /** Calls `decide` again whenever there is more room than before. `StorageFull`: there is none to be had. */
  async during<T>(decide: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await decide();
      } catch (error) {
        if (!isCheckpointError(error, 'StorageFull') || !(await this.#hasMadeRoom())) throw error;
      }
    }
  }

  /** What all sweeps have deleted, `last` the one that is told in full. */
  withEarlier(last: SweepResult): SweepResult {
    const sum = (count: keyof Counts) =>
      this.#swept.reduce((total, each) => total + each[count], last[count]);
    return {
      ...last,
      objectCount: sum('objectCount'),
      freedBytes: sum('freedBytes'),
      uploadCount: sum('uploadCount'),
      uploadBytes: sum('uploadBytes'),
      leaseCount: sum('leaseCount'),
      notes: [...new Set([...this.#swept.flatMap(({ notes }) => notes), ...last.notes])],
    };
  }

  async #hasMadeRoom(): Promise<boolean> {
    const { store, logger } = this.#engine;
    const swept = await sweep(this.#engine, this.#catalog, { signal: this.#signal });
    this.#swept.push(swept);
    const { objectCount, uploadCount, leaseCount } = swept;
    if (objectCount + uploadCount + leaseCount > 0) return true;
    const hasGiven = (await store.makeRoom?.({ signal: this.#signal })) ?? false;
    if (hasGiven) logger.log('warn', 'the store is full: what it kept back is given up for collection');
    return hasGiven;
  }
}
