import type { Random } from '@holdfast/core/contract';

/**
 * Reproducible random numbers. Generator: sfc32 by Chris Doty-Humphrey (PractRand), 128 bits of
 * state, seeded by splitmix32. Good enough for unique names within a test, but not for secrets.
 */
export class SeededRandom implements Random {
  /** Reproduces the numbers. */
  readonly seed: number;
  readonly #state: Uint32Array;

  /** `seed`: a whole number. Its low 53 bits are used. */
  constructor(seed: number) {
    this.seed = seed;
    const next = splitmix32((seed ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b1)) >>> 0);
    this.#state = Uint32Array.of(next(), next(), next(), 1);
    for (let i = 0; i < 12; i++) this.uint32();
  }

  /** Uniform in 0 to 2^32 - 1. */
  uint32(): number {
    const s = this.#state as Uint32Array & [number, number, number, number];
    const result = (s[0] + s[1] + s[3]) >>> 0;
    s[3] = s[3] + 1;
    s[0] = s[1] ^ (s[1] >>> 9);
    s[1] = s[2] + (s[2] << 3);
    s[2] = ((s[2] << 21) | (s[2] >>> 11)) + result;
    return result;
  }

  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** Uniform in 0 to `limit - 1`; `limit` at most 2^32. */
  integer(limit: number): number {
    return Math.floor(this.fraction() * limit);
  }

  hex(digits: number): string {
    let text = '';
    while (text.length < digits) text += this.uint32().toString(16).padStart(8, '0');
    return text.slice(0, digits);
  }

  bytes(count: number): Uint8Array {
    const words = new Uint32Array(Math.ceil(count / 4));
    for (let i = 0; i < words.length; i++) words[i] = this.uint32();
    return new Uint8Array(words.buffer, 0, count);
  }

  /** `items` must not be empty. */
  pick<T>(items: readonly T[]): T {
    return items[this.integer(items.length)] as T;
  }

  /** A copy in random order (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const result = [...items];
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      [result[i], result[j]] = [result[j] as T, result[i] as T];
    }
    return result;
  }

  /**
   * An independent generator, so that numbers drawn in one part of a test do not shift those of
   * another.
   */
  fork(): SeededRandom {
    return new SeededRandom(this.uint32() * 2 ** 21 + (this.uint32() >>> 11));
  }
}

function splitmix32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
}
