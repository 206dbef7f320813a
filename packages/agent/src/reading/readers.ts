/** Managers that only read, one for each run. A manager closes after ten minutes without use. */

import { type Checkpoint, type Clock, isOfAnotherRun, type RunManager } from '@holdfast/core';
import { ofFormerRun } from '../former-run.ts';
import { HeldCheckpoints, type Wanted } from './held-checkpoints.ts';

const IDLE_MS = 10 * 60_000;

interface Reader {
  readonly manager: Promise<RunManager>;
  readonly held: HeldCheckpoints;
  usedAtMs: number;
  useCount: number;
}

export class Readers {
  readonly #open: (uri: string, runId?: string) => Promise<RunManager>;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #readers = new Map<string, Reader>();
  /** Readers of runs that were replaced. */
  readonly #closing = new Set<Promise<void>>();

  /** `runId`: the manager must refuse another run. */
  constructor(open: (uri: string, runId?: string) => Promise<RunManager>, clock: Pick<Clock, 'monotonicMs'>) {
    this.#open = open;
    this.#clock = clock;
  }

  get useCount(): number {
    return [...this.#readers.values()].reduce((sum, reader) => sum + reader.useCount, 0);
  }

  /** `work` may be called twice: again if the run was removed and begun again meanwhile. */
  use<T>(uri: string, work: (manager: RunManager) => Promise<T>): Promise<T> {
    return this.#use(uri, (manager) => work(manager));
  }

  /** As `use`. `Fenced`: the run at the URI is not the one that the trainer has joined. */
  async useJoined<T>(
    { uri, runId }: { readonly uri: string; readonly runId?: string | undefined },
    work: (manager: RunManager) => Promise<T>,
  ): Promise<T> {
    if (runId === undefined) return this.use(uri, work);
    // No URI has a blank before it.
    const key = `${runId} ${uri}`;
    const reader = this.#readers.get(key) ?? this.#add(key, this.#open(uri, runId));
    try {
      return await this.#useReader(reader, work);
    } catch (error) {
      if (!isOfAnotherRun(error)) throw error;
      this.#forget(key, reader);
      throw ofFormerRun(uri, error);
    }
  }

  /** As `HeldCheckpoints.read`, on the manager of the run. `work` is called at most once. */
  read<T>(wanted: Wanted, work: (checkpoint: Checkpoint) => Promise<T>): Promise<T> {
    let hasBegun = false;
    const once = (checkpoint: Checkpoint) => {
      hasBegun = true;
      return work(checkpoint);
    };
    return this.#use(
      wanted.uri,
      (manager, held) => held.read(manager, wanted, once),
      () => !hasBegun,
    );
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
      await closeReader(reader);
    }
    if (all) await Promise.all(this.#closing);
  }

  /**
   * If the run was removed and another one begun at its URI, everything known of it is forgotten.
   * The work then begins again with the new run, if `mayRepeat`.
   */
  async #use<T>(
    uri: string,
    work: (manager: RunManager, held: HeldCheckpoints) => Promise<T>,
    mayRepeat = () => true,
  ): Promise<T> {
    const reader = this.#readers.get(uri) ?? this.#add(uri);
    try {
      return await this.#useReader(reader, work);
    } catch (error) {
      if (!isOfAnotherRun(error)) throw error;
      this.#forget(uri, reader);
      if (!mayRepeat()) throw error;
    }
    return this.#useReader(this.#readers.get(uri) ?? this.#add(uri), work);
  }

  async #useReader<T>(
    reader: Reader,
    work: (manager: RunManager, held: HeldCheckpoints) => Promise<T>,
  ): Promise<T> {
    reader.useCount += 1;
    try {
      return await work(await reader.manager, reader.held);
    } finally {
      reader.useCount -= 1;
      reader.usedAtMs = this.#clock.monotonicMs();
    }
  }

  /** Its reads end: their bytes are of the run that was removed. */
  #forget(uri: string, reader: Reader): void {
    if (this.#readers.get(uri) !== reader) return;
    this.#readers.delete(uri);
    const closing = closeReader(reader).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #add(uri: string, manager = this.#open(uri)): Reader {
    const held = new HeldCheckpoints(this.#clock);
    const reader: Reader = { manager, held, useCount: 0, usedAtMs: this.#clock.monotonicMs() };
    this.#readers.set(uri, reader);
    manager.catch(() => this.#readers.delete(uri));
    return reader;
  }
}

async function closeReader({ held, manager }: Reader): Promise<void> {
  await held.releaseIdle(true);
  await (await manager.catch(() => undefined))?.close();
}
