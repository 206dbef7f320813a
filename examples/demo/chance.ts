/** Pseudo-random numbers that follow from a seed, so that every process draws the same ones. */

/**
 * Hashes three numbers to 32 bits. A change of any number changes the whole result. Applies the
 * finalizer of MurmurHash3 once for each number.
 */
export function mix(a: number, b: number, c: number): number {
  return scramble(scramble(scramble(a) ^ b) ^ c);
}

function scramble(bits: number): number {
  let x = (bits + 0x9e3779b9) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * Turns 32 `bits` into a number with mean 0 and variance 1, between -2.45 and 2.45. It is computed
 * from the sum of both halves.
 */
export function bell(bits: number): number {
  return (((bits & 0xffff) + (bits >>> 16)) / 0x10000 - 1) * 2.449;
}

/** A sequence of uniform draws from 0 (inclusive) to 1 (exclusive). */
export class Chance {
  readonly #seed: number;
  readonly #stream: number;
  #drawn = 0;

  constructor(seed: number, stream: number) {
    this.#seed = seed;
    this.#stream = stream;
  }

  next(): number {
    return mix(this.#seed, this.#stream, this.#drawn++) / 2 ** 32;
  }
}
