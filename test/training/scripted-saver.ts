import type { RunManager, SaveResult } from '@holdfast/core/contract';
import type { SaveInFlight, Saver, SaveStart } from '@holdfast/training';
import { expect } from 'vitest';

const MIB = 1024 ** 2;

/** Has at most one save in flight. The test decides how it ends. */
export class ScriptedSaver implements Saver {
  readonly manager: RunManager;
  inFlight: SaveInFlight | null = null;
  newest: SaveResult | null = null;
  /** Bytes of each save by `saveStreams`, whatever its outcome. */
  readonly copied: Uint8Array[] = [];
  throttleCalls: string[] = [];
  isSkipping = false;
  latest: () => Promise<{ version: bigint } | null> = async () => null;
  /** For `saveStreams`: an error before the copy is made. */
  beforeCopy: () => Promise<void> = async () => undefined;
  /** For `saveStreams`: decides the outcome after the copy is made. */
  afterCopy: () => void = () => this.commit();
  #over = Promise.withResolvers<SaveResult>();
  /** True while the outcome of the last save has not been reported. */
  #isUnheard = false;
  /** Serialises copies and `settled`. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor() {
    const throttle = {
      setBytesPerSecondMax: (max: number | null) => this.throttleCalls.push(`max ${max}`),
      resume: () => this.throttleCalls.push('resume'),
    };
    const create = () => expect.unreachable('the saver saves');
    // The other members of a manager are not used.
    const asked = { latest: () => this.latest(), get: async () => null, list: async () => [] };
    this.manager = { throttle, create, ...asked } as unknown as RunManager;
  }

  begin(version: bigint, parts: Partial<SaveInFlight> = {}): void {
    this.#over = Promise.withResolvers();
    this.#over.promise.catch(() => undefined); // the next caller gets the error
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

  async saveStreams(
    write: (open: (key: string) => WritableStream<Uint8Array>) => Promise<void>,
  ): Promise<SaveStart> {
    if (this.isSkipping && this.inFlight !== null) return 'skipped';
    await this.#inTurn(async () => {
      await this.#hear();
      await this.beforeCopy();
      const chunks: Uint8Array[] = [];
      let isClosed = false;
      const sink = {
        write: (chunk: Uint8Array) => void chunks.push(chunk.slice()),
        close: () => {
          isClosed = true;
        },
      };
      await write((key) => {
        expect(key).toBe('default');
        return new WritableStream(sink);
      });
      expect(isClosed).toBe(true);
      this.copied.push(Buffer.concat(chunks));
      this.begin(BigInt(this.copied.length - 1));
      this.afterCopy();
    });
    return 'started';
  }

  settled(): Promise<SaveResult | null> {
    return this.#inTurn(() => this.#hear());
  }

  async #hear(): Promise<SaveResult | null> {
    if (!this.#isUnheard) return null;
    try {
      return await this.#over.promise;
    } finally {
      this.#isUnheard = false;
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}
