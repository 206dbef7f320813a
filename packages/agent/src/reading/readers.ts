/** Managers that only read, one for each run. A manager closes after ten minutes without use. */

import type { Checkpoint, Clock, RunManager } from '@holdfast/core';
import { HeldCheckpoints, type Wanted } from './held-checkpoints.ts';

const IDLE_MS = 10 * 60_000;

interface Reader {
  readonly manager: Promise<RunManager>;
  readonly held: HeldCheckpoints;
  usedAtMs: number;
  useCount: number;
}

export class Readers {
  readonly #open: (uri: string) => Promise<RunManager>;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #readers = new Map<string, Reader>();

  constructor(open: (uri: string) => Promise<RunManager>, clock: Pick<Clock, 'monotonicMs'>) {
    this.#open = open;
    this.#clock = clock;
  }

  get useCount(): number {
    return [...this.#readers.values()].reduce((sum, reader) => sum + reader.useCount, 0);
  }

  use<T>(uri: string, work: (manager: RunManager) => Promise<T>): Promise<T> {
    return this.#use(uri, (manager) => work(manager));
  }

  /** As `HeldCheckpoints.read`, on the manager of the run. */
  read<T>(wanted: Wanted, work: (checkpoint: Checkpoint) => Promise<T>): Promise<T> {
    return this.#use(wanted.uri, (manager, held) => held.read(manager, wanted, work));
  }

  /** As `HeldCheckpoints.describe`, on the manager of the run. */
  describe<T>(wanted: Wanted, work: (checkpoint: Checkpoint) => Promise<T>): Promise<T> {
    return this.#use(wanted.uri, (manager, held) => held.describe(manager, wanted, work));
  }

  /** Closes the managers that were not used for ten minutes. `all`: closes every manager. */
  async closeIdle(all = false): Promise<void> {
    const until = this.#clock.monotonicMs() - IDLE_MS;
    for (const [uri, reader] of [...this.#readers]) {
      await reader.held.releaseIdle(all);
      if (!all && (reader.useCount > 0 || reader.usedAtMs > until)) continue;
      this.#readers.delete(uri);
      await (await reader.manager.catch(() => undefined))?.close();
    }
  }

  async #use<T>(uri: string, work: (manager: RunManager, held: HeldCheckpoints) => Promise<T>): Promise<T> {
    const reader = this.#readers.get(uri) ?? this.#add(uri);
    reader.useCount += 1;
    try {
      return await work(await reader.manager, reader.held);
    } finally {
      reader.useCount -= 1;
      reader.usedAtMs = this.#clock.monotonicMs();
    }
  }

  #add(uri: string): Reader {
    const manager = this.#open(uri);
    const held = new HeldCheckpoints(this.#clock);
    const reader: Reader = { manager, held, useCount: 0, usedAtMs: this.#clock.monotonicMs() };
    this.#readers.set(uri, reader);
    manager.catch(() => this.#readers.delete(uri));
    return reader;
  }
}
