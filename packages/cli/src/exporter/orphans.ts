/**
 * Orphaned bytes of runs: objects that nothing refers to any more. To find them, all objects of a
 * run must be listed and all its records read. So one run is examined at a time, and rarely.
 */

import { type Clock, isStopOf, type RunManager } from '@holdfast/core/contract';

/** A run that takes longer counts as failed, so that the others get their turn. */
const RUN_TIMEOUT_MS = 60 * 60_000;
/** New runs are noticed after so long. */
const PAUSE_MS = 60_000;

export interface OrphanFacts {
  readonly orphanedBytes: number;
  /** By this machine's clock. */
  readonly checkedAtMs: number;
}

export interface OrphansOptions {
  /** A run is examined again after so long. */
  readonly everyMs: number;
  readonly open: (uri: string) => Promise<RunManager>;
  /** Runs to examine. */
  readonly uris: () => readonly string[];
  readonly clock: Clock;
  readonly onFailure: (uri: string, error: unknown) => void;
}

export class Orphans {
  readonly #options: OrphansOptions;
  readonly #facts = new Map<string, OrphanFacts>();
  /** By the monotonic clock, failures included. */
  readonly #triedAtMs = new Map<string, number>();

  constructor(options: OrphansOptions) {
    this.#options = options;
  }

  /** `undefined`: not known yet, or the records of the run could not be read. */
  factsOf(uri: string): OrphanFacts | undefined {
    return this.#facts.get(uri);
  }

  /** Examines the runs whose turn it is, again and again. Rejects when the signal fires. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock, everyMs } = this.#options;
    for (;;) {
      await this.pass(signal);
      await clock.sleep(Math.min(PAUSE_MS, everyMs), signal);
    }
  }

  /** Examines each run whose turn it is, once. Rejects only when the signal fires. */
  async pass(signal: AbortSignal): Promise<void> {
    const { clock, everyMs, uris, onFailure } = this.#options;
    const wanted = new Set(uris());
    for (const uri of this.#triedAtMs.keys()) if (!wanted.has(uri)) this.#forget(uri);
    for (const uri of wanted) {
      const triedAtMs = this.#triedAtMs.get(uri);
      if (triedAtMs !== undefined && clock.monotonicMs() - triedAtMs < everyMs) continue;
      try {
        await this.#examine(uri, signal);
      } catch (error) {
        if (isStopOf(error, signal)) throw error;
        onFailure(uri, error);
      }
      this.#triedAtMs.set(uri, clock.monotonicMs());
    }
  }

  async #examine(uri: string, signal: AbortSignal): Promise<void> {
    await using manager = await this.#options.open(uri);
    const until = AbortSignal.any([signal, AbortSignal.timeout(RUN_TIMEOUT_MS)]);
    const { problems, isSound } = await manager.admin.fsck({ signal: until });
    // If a record is damaged, it is not known what it refers to.
    if (!isSound) return void this.#facts.delete(uri);
    const orphaned = problems.filter(({ kind }) => kind === 'garbage' || kind === 'abandoned-upload');
    const orphanedBytes = orphaned.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    this.#facts.set(uri, { orphanedBytes, checkedAtMs: this.#options.clock.nowMs() });
  }

  #forget(uri: string): void {
    this.#triedAtMs.delete(uri);
    this.#facts.delete(uri);
  }
}
