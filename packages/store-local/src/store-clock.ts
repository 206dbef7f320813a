/**
 * The time of the file system: that which it gives to a file that is made now. Objects have theirs
 * from it, so ages are right whatever the clock of this machine says; several machines that share a
 * directory agree, where the server of the file system gives the times.
 */

import { constants } from 'node:fs';
import type { FileSystem } from '@holdfast/local-files';

/** It is looked at again after so long. */
const LOOK_EVERY_MS = 10_000;
/**
 * A kernel gives times by its last tick, and an answer takes its time: what is closer is the same.
 */
const SAME_MS = 250;

export interface StoreClockParts {
  readonly fileSystem: FileSystem;
  /** Of this machine. */
  readonly nowMs: () => number;
  /** Of a file that is not there, in a directory that may not be there yet. */
  readonly newPath: () => string;
}

export class StoreClock {
  readonly #parts: StoreClockParts;
  /** By this machine's clock. */
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #aheadMs = 0;
  #looking: Promise<void> | null = null;

  constructor(parts: StoreClockParts) {
    this.#parts = parts;
  }

  /** Where no file can be made, this machine's time. */
  async nowMs(): Promise<number> {
    const sinceMs = this.#parts.nowMs() - this.#lookedAtMs;
    // Either clock may be set meanwhile, back too.
    if (!(sinceMs >= 0 && sinceMs < LOOK_EVERY_MS)) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null;
      });
      await this.#looking;
    }
    return this.lastMs();
  }

  /** By the difference that was found last. */
  lastMs(): number {
    return this.#parts.nowMs() + this.#aheadMs;
  }

  async #look(): Promise<void> {
    const { nowMs } = this.#parts;
    const beganMs = nowMs();
    const givenMs = await this.#timeOfNewFile().catch(() => null);
    const endedMs = nowMs();
    if (givenMs === null) return;
    const aheadMs = givenMs - (beganMs + endedMs) / 2;
    this.#aheadMs = Math.abs(aheadMs) - (endedMs - beganMs) / 2 <= SAME_MS ? 0 : Math.round(aheadMs);
    this.#lookedAtMs = endedMs;
  }

  async #timeOfNewFile(): Promise<number> {
    const { fileSystem, newPath } = this.#parts;
    const path = newPath();
    const descriptor = await fileSystem.open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL);
    try {
      return Number((await fileSystem.fstat(descriptor)).mtimeNs / 1_000_000n);
    } finally {
      await fileSystem.close(descriptor).finally(() => fileSystem.unlink(path));
    }
  }
}
