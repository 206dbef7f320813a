/**
 * The records of one writer's sealed saves in the staging directory, by which the next agent goes
 * on. Changes take turns, so that the last one written has all that is known.
 */

import type { SealRecord, Stage } from '../staging/stage.ts';

/**
 * A trainer hears of a commit at once, or asks for it when it has connected again. Until then it
 * may repeat the save. It waits for few saves at a time.
 */
const COMMITTED_KEPT = 64;

export class SealRecords {
  readonly #stage: Pick<Stage, 'seal' | 'unseal'>;
  readonly #writerId: string;
  readonly #records = new Map<string, SealRecord>();
  /** Ids of committed saves whose records are in the stage, oldest first. */
  readonly #committed: string[] = [];
  #turn: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(stage: Pick<Stage, 'seal' | 'unseal'>, writerId: string) {
    this.#stage = stage;
    this.#writerId = writerId;
  }

  /** From now on the next agent finishes the save. Rejects if the record cannot be written. */
  async add(record: SealRecord): Promise<void> {
    await this.#stage.seal(this.#writerId, record);
    this.#records.set(record.saveId, record);
  }

  /** An earlier agent has written it. */
  know(record: SealRecord): void {
    if (record.committed) this.#committed.push(record.saveId);
    else this.#records.set(record.saveId, record);
  }

  /**
   * Adds what has become known. A save that has no record, or has ended, is left alone. Never
   * rejects: a record that cannot be written stays as it was.
   */
  amend(saveId: string, facts: Partial<SealRecord>): Promise<void> {
    return this.#inTurn(async () => {
      const record = this.#records.get(saveId);
      if (record === undefined || this.#isClosed) return;
      const amended = { ...record, ...facts };
      await this.#stage.seal(this.#writerId, amended);
      this.#records.set(saveId, amended);
    });
  }

  /**
   * The save is committed. The record stays for a while: the next agent answers with it if the
   * trainer repeats the save, whose sources may be gone. Never rejects: if the record cannot be
   * written, the next agent asks the store.
   */
  commit(record: SealRecord): Promise<void> {
    return this.#inTurn(async () => {
      this.#records.delete(record.saveId);
      await this.#stage.seal(this.#writerId, record);
      this.#committed.push(record.saveId);
      for (const old of this.#committed.splice(0, this.#committed.length - COMMITTED_KEPT))
        await this.#stage.unseal(this.#writerId, old);
    });
  }

  /** The save has failed. Never rejects. */
  remove(saveId: string): Promise<void> {
    return this.#inTurn(async () => {
      this.#records.delete(saveId);
      await this.#stage.unseal(this.#writerId, saveId);
    });
  }

  /** From now on the records stay as they are, for the next agent. */
  close(): void {
    this.#isClosed = true;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work).catch(() => undefined);
    return this.#turn;
  }
}
