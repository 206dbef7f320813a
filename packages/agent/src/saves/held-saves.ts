/**
 * Saves from records of an earlier agent that must not begin yet. Earlier saves of their writer
 * were in memory of the trainer, so only the trainer can repeat them.
 */

import type { SaveJob } from './save-job.ts';

/** A trainer that still runs repeats its saves within seconds. It may be frozen. */
export const HELD_MS_MAX = 30_000;

export class HeldSaves {
  readonly #awaited = new Set<string>();
  readonly #held = new Map<string, SaveJob>();
  readonly #begin: (job: SaveJob) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(begin: (job: SaveJob) => void) {
    this.#begin = begin;
  }

  has({ facts }: SaveJob): boolean {
    return this.#held.has(facts.saveId);
  }

  /**
   * Begins it when the saves `after` have come. Without any: at once, or after those held before.
   */
  add(job: SaveJob, after: readonly string[]): void {
    for (const saveId of after) this.#awaited.add(saveId);
    if (this.#awaited.size === 0) {
      this.#begin(job);
      return;
    }
    this.#held.set(job.facts.saveId, job);
    this.#timer ??= setTimeout(() => this.release(), HELD_MS_MAX);
  }

  /** The save begins now, or will never begin. */
  note(saveId: string): void {
    if (this.#awaited.delete(saveId) && this.#awaited.size === 0) this.release();
  }

  /**
   * The trainer names a save. It repeats its saves in their order, so those before this one have
   * come, or have ended.
   */
  named(saveId: string): void {
    if (!this.#awaited.has(saveId)) this.release();
  }

  /** Begins all, in their order. */
  release(): void {
    this.#stopWaiting();
    for (const [saveId, job] of [...this.#held]) {
      // The later ones are still held: none may be taken for an earlier one.
      this.#held.delete(saveId);
      this.#begin(job);
    }
  }

  /** Begins none: the next agent continues with them. */
  clear(): void {
    this.#stopWaiting();
    this.#held.clear();
  }

  #stopWaiting(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#awaited.clear();
  }
}
