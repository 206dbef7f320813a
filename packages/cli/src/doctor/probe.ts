import { crc32c } from '@holdfast/core';
import type { Clock } from '@holdfast/core/contract';
import { type Ground, PatientClient } from '@holdfast/testkit';
import type { Visit } from './visit.ts';

const KIB = 1024;

/** Resources of one check: clients of the store, and a prefix of its own. */
export class Probe implements Ground {
  readonly clock: Clock;
  /** Ends in a slash. */
  readonly prefix: string;
  readonly #visit: Visit;
  readonly #signal: AbortSignal;

  constructor(visit: Visit, place: string, signal: AbortSignal) {
    this.clock = visit.clock;
    this.prefix = `${visit.prefix}${place}/`;
    this.#visit = visit;
    this.#signal = signal;
  }

  key(name: string): string {
    return this.prefix + name;
  }

  /**
   * Client `number`, from 0: each represents a separate process. `triesMax`: how often a call is
   * tried.
   */
  async client(number = 0, { triesMax }: { triesMax?: number } = {}): Promise<PatientClient> {
    const { clock, random } = this.#visit;
    return new PatientClient(await this.#visit.store(number), {
      triesMax,
      crc32c: (bytes) => crc32c(bytes),
      clock,
      random,
      signal: this.#signal,
      onRepeat: () => this.#visit.noteRepeat(),
      onKey: (key) => this.#visit.noteKey(key),
      onNoKey: (key) => this.#visit.forgetKey(key),
      onUpload: (upload) => this.#visit.noteUpload(upload),
    });
  }

  /** Unique random bytes, so that nothing on the way can compress or deduplicate them. */
  bytes(count: number): Uint8Array {
    const bytes = new Uint8Array(count);
    for (let at = 0; at < count; at += 64 * KIB) crypto.getRandomValues(bytes.subarray(at, at + 64 * KIB));
    return bytes;
  }
}
