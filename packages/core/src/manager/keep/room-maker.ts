/**
 * Makes decisions possible on a full store. A collection must write before it may delete: the
 * catalog records first that a checkpoint is removed. If there is no room for that entry, existing
 * garbage is deleted, which needs no decision. If there is no garbage, the store releases the space
 * it keeps in reserve for this.
 */

import { isCheckpointError } from '../../contract/errors.ts';
import type { SweepResult } from '../../contract/retention.ts';
import type { RunContext } from '../run/index.ts';
import { sweep } from './sweep.ts';

type Counts = Pick<SweepResult, 'objectCount' | 'freedBytes' | 'uploadCount' | 'uploadBytes' | 'leaseCount'>;

export class RoomMaker {
  readonly #run: RunContext;
  readonly #signal: AbortSignal | undefined;
  readonly #swept: SweepResult[] = [];

  constructor(run: RunContext, signal: AbortSignal | undefined) {
    this.#run = run;
    this.#signal = signal;
  }

  /**
   * Repeats `decide` as long as more room could be made. `StorageFull`: no more room can be made.
   */
  async during<T>(decide: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await decide();
      } catch (error) {
        if (!isCheckpointError(error, 'StorageFull') || !(await this.#hasMadeRoom())) throw error;
      }
    }
  }

  /** Adds up what all sweeps have deleted. All else is taken from `last`. */
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
    const { store, logger } = this.#run;
    const swept = await sweep(this.#run, { signal: this.#signal });
    this.#swept.push(swept);
    const { objectCount, uploadCount, leaseCount } = swept;
    if (objectCount + uploadCount + leaseCount > 0) return true;
    const hasGiven = (await store.makeRoom?.({ signal: this.#signal })) ?? false;
    if (hasGiven) logger.log('warn', 'the store is full: its reserve is released for collection');
    return hasGiven;
  }
}
