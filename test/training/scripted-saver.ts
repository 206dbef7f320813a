import type { CheckpointManager, SaveResult } from '@holdfast/core/contract';
import type { SaveInFlight, Saver, SaveStart } from '@holdfast/training';

const MIB = 1024 ** 2;

/** Has one save in flight at most, which ends as the test says. */
export class ScriptedSaver implements Saver {
  inFlight: SaveInFlight | null = null;
  newest: SaveResult | null = null;
  latest: () => Promise<{ version: bigint } | null> = async () => null;
  throttleCalls: string[] = [];
  #over = Promise.withResolvers<SaveResult>();
  /** Nobody has heard what the last save came to. */
  #isUnheard = false;

  get manager(): CheckpointManager {
    const throttle = {
      setBytesPerSecondMax: (max: number | null) => this.throttleCalls.push(`max ${max}`),
      resume: () => this.throttleCalls.push('resume'),
    };
    // The rest of a manager is not asked for.
    return { throttle, latest: () => this.latest() } as unknown as CheckpointManager;
  }

  begin(version: bigint, parts: Partial<SaveInFlight> = {}): void {
    this.#over = Promise.withResolvers();
    this.#over.promise.catch(() => undefined); // whoever asks hears of it
    this.#isUnheard = true;
    this.inFlight = {
      version,
      writer: { index: 0, count: 1 },
      elapsedMs: 0,
      doneBytes: MIB,
      totalBytes: 4 * MIB,
      file: 'model.bin',
      silentMs: 0,
      missingWriters: [],
      ...parts,
    };
  }

  commit(): void {
    const newest = { version: this.inFlight?.version } as SaveResult;
    this.inFlight = null;
    this.newest = newest;
    this.#over.resolve(newest);
  }

  fail(error: Error): void {
    this.inFlight = null;
    this.#over.reject(error);
  }

  saveStreams(): Promise<SaveStart> {
    return expect.unreachable('a preemption saves nothing by itself');
  }

  async settled(): Promise<SaveResult | null> {
    if (!this.#isUnheard) return null;
    try {
      return await this.#over.promise;
    } finally {
      this.#isUnheard = false;
    }
  }
}
