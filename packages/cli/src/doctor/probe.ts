import type { Clock } from '@holdfast/core/contract';
import { Client } from './client.ts';
import type { Visit } from './visit.ts';

const KIB = 1024;

/** Resources of one check: clients of the store, and a prefix of its own. */
export class Probe {
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

  /** Client `number`, from 0: each represents a separate process. */
  async client(number = 0): Promise<Client> {
    const { clock, random } = this.#visit;
    return new Client(await this.#visit.store(number), {
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

/** The closest part size that the store accepts. */
export function partSizeNear(wantedBytes: number, { capabilities }: Client): number {
  return Math.min(capabilities.maxPartBytes, Math.max(capabilities.minPartBytes, wantedBytes));
}
