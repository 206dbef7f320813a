/**
 * The time of the file system: the time it gives to a file created now. Objects get their times
 * from it, so ages are correct whatever the clock of this machine says. Machines that share a
 * directory agree, if the file server sets the times.
 */

import { constants } from 'node:fs';
import { closeRead, type FileSystem } from '@holdfast/local-files';

/** The offset is measured again after this time. */
const LOOK_EVERY_MS = 10_000;
/**
 * Smaller differences count as none: a kernel takes times from its last tick, and an answer takes
 * time.
 */
const SAME_MS = 250;

export interface StoreClockParts {
  readonly fileSystem: FileSystem;
  /** Clock of this machine. */
  readonly nowMs: () => number;
  /** Path for a new file. Its directory may not exist yet. */
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

  /** Falls back to this machine's time if no file can be created. */
  async nowMs(): Promise<number> {
    const sinceMs = this.#parts.nowMs() - this.#lookedAtMs;
    // Either clock may have been set since, even backwards.
    if (!(sinceMs >= 0 && sinceMs < LOOK_EVERY_MS)) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null;
      });
      await this.#looking;
    }
    return this.lastMs();
  }

  /** Uses the offset measured last. */
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
      await closeRead(fileSystem, descriptor);
      await fileSystem.unlink(path);
    }
  }
}
