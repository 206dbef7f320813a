import { abortError, type Clock } from '@holdfast/core/contract';

export interface ManualClockOptions {
  /** Initial wall-clock time. Default: 2026-01-01. */
  nowMs?: number | undefined;
  /**
   * Time advances by itself, at once, when only sleepers are left: timeouts expire without waiting.
   * It cannot see pending I/O, so it suits only stores without I/O (the memory store).
   */
  autoAdvance?: boolean | undefined;
}

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

// After this many turns of the event loop without a new or woken sleeper, the program counts as
// idle.
const IDLE_TURNS = 2;

/**
 * A clock that a test moves. Sleepers wake in the order in which they are due, each at its own
 * time.
 */
export class ManualClock implements Clock {
  readonly #sleepers = new Set<Sleeper>();
  readonly #autoAdvance: boolean;
  #wallOffsetMs: number;
  #elapsedMs = 0;
  #changeCount = 0;
  #isAdvancingItself = false;

  constructor(options: ManualClockOptions = {}) {
    this.#wallOffsetMs = options.nowMs ?? Date.UTC(2026, 0, 1);
    this.#autoAdvance = options.autoAdvance ?? false;
  }

  nowMs(): number {
    return this.#wallOffsetMs + this.#elapsedMs;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  /** Number of pending sleeps. */
  get sleeperCount(): number {
    return this.#sleepers.size;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(abortError(signal));
      if (ms <= 0) return resolve();
      const stop = () => {
        this.#remove(sleeper);
        if (signal) reject(abortError(signal));
      };
      const wake = () => {
        signal?.removeEventListener('abort', stop);
        this.#remove(sleeper);
        resolve();
      };
      const sleeper = { dueMs: this.#elapsedMs + ms, wake };
      signal?.addEventListener('abort', stop, { once: true });
      this.#sleepers.add(sleeper);
      this.#changeCount++;
      if (this.#autoAdvance && !this.#isAdvancingItself) void this.#advanceWhileIdle();
    });
  }

  /**
   * Advances both clocks. Each sleeper that wakes on the way runs at its own time, and may sleep
   * again within the span.
   */
  async advance(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms;
    await eventLoopTurn();
    for (let next = this.#next(); next !== undefined && next.dueMs <= endMs; next = this.#next()) {
      this.#wake(next);
      await eventLoopTurn();
    }
    this.#elapsedMs = Math.max(this.#elapsedMs, endMs);
  }

  /** Simulates setting the date: the wall clock jumps, and no sleeper wakes. */
  setWallClock(nowMs: number): void {
    this.#wallOffsetMs = nowMs - this.#elapsedMs;
  }

  async #advanceWhileIdle(): Promise<void> {
    this.#isAdvancingItself = true;
    while (this.#sleepers.size > 0) {
      await this.#idle();
      const next = this.#next();
      if (next !== undefined) this.#wake(next);
    }
    this.#isAdvancingItself = false;
  }

  async #idle(): Promise<void> {
    for (let turns = 0; turns < IDLE_TURNS; turns++) {
      const before = this.#changeCount;
      await eventLoopTurn();
      if (this.#changeCount !== before) turns = -1;
    }
  }

  /** The earliest sleeper; at equal times, the one that slept first. */
  #next(): Sleeper | undefined {
    let next: Sleeper | undefined;
    for (const sleeper of this.#sleepers) {
      if (next === undefined || sleeper.dueMs < next.dueMs) next = sleeper;
    }
    return next;
  }

  #wake(sleeper: Sleeper): void {
    this.#elapsedMs = Math.max(this.#elapsedMs, sleeper.dueMs);
    sleeper.wake();
  }

  #remove(sleeper: Sleeper): void {
    this.#sleepers.delete(sleeper);
    this.#changeCount++;
  }
}

/** Runs all continuations that wait only for promises. */
function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
