/** Which trainer exports the model: one election for each run, for all trainers of the node. */

import { type ObjectStore, systemClock } from '@holdfast/core';
import type { StoreElection, StoreElectionOptions } from '@holdfast/training';
import type { ElectionRequest, ElectionView } from './api/shapes.ts';

interface Held {
  readonly store: ObjectStore;
  readonly election: StoreElection;
}

/**
 * An election remembers since when it has seen the newest grant. Another trainer is elected only
 * after that time. So elections stay open until the agent ends.
 */
export class Elections {
  readonly #open: (uri: string) => Promise<ObjectStore>;
  readonly #options: StoreElectionOptions;
  readonly #held = new Map<string, Promise<Held>>();
  #watchUntilMs = 0;

  constructor(open: (uri: string) => Promise<ObjectStore>, options: StoreElectionOptions) {
    this.#open = open;
    this.#options = options;
  }

  /**
   * A grant may still be in force. An agent that ended now would forget since when it has seen the
   * grant.
   */
  get isWatching(): boolean {
    return this.#nowMs() < this.#watchUntilMs;
  }

  /** The errors are those of `StoreElection.requestSave`. An error never elects the trainer. */
  async request({ uri, trainer, blockMs }: ElectionRequest, signal: AbortSignal): Promise<ElectionView> {
    const { election } = await this.#of(uri);
    try {
      const isGranted = await election.requestSave(trainer, blockMs, { signal });
      const holder = isGranted ? trainer : (election.newest?.trainerId ?? '');
      return { isGranted, holder };
    } finally {
      this.#watchUntilMs = Math.max(this.#watchUntilMs, this.#nowMs() + election.patienceMs);
    }
  }

  async close(): Promise<void> {
    const held = [...this.#held.values()];
    this.#held.clear();
    for (const one of held) await (await one.catch(() => undefined))?.store.close();
  }

  #of(uri: string): Promise<Held> {
    const known = this.#held.get(uri);
    if (known !== undefined) return known;
    const held = this.#begin(uri);
    this.#held.set(uri, held);
    held.catch(() => this.#held.delete(uri));
    return held;
  }

  async #begin(uri: string): Promise<Held> {
    const store = await this.#open(uri);
    // Loaded here, so that the start of an agent does not wait for it.
    const { StoreElection } = await import('@holdfast/training');
    return { store, election: new StoreElection(store, this.#options) };
  }

  #nowMs(): number {
    return (this.#options.clock ?? systemClock).monotonicMs();
  }
}
