/**
 * Sets of 64-bit integers in given memory, for millions of operations. Ids are passed as halves, so
 * that no id becomes an object. Old contents of the memory would count as ids: call `clear` first
 * if the memory was used before.
 */

export interface IdSet {
  /** False if the id was already in the set. */
  add(low: number, high: number): boolean;
  clear(): void;
}

/** 2^32: the weight of the upper half. */
const UPPER = 4_294_967_296;

/** Exact below 2^53 in absolute value; otherwise rounded. */
export function idAsNumber(low: number, high: number): number {
  return high * UPPER + (low >>> 0);
}

/** For ids in a range that is not much larger than their number: one bit each. */
export class BitIdSet implements IdSet {
  readonly #first: number;
  readonly #bits: Int32Array;

  /** `first` to `last`, both inclusive and exact. Uses the first `sizeBytes(first, last)` bytes. */
  constructor(first: number, last: number, memory: Int32Array) {
    this.#first = first;
    this.#bits = memory.subarray(0, Math.ceil((last - first + 1) / 32));
  }

  static sizeBytes(first: number, last: number): number {
    const isExact = Math.abs(first) <= Number.MAX_SAFE_INTEGER && Math.abs(last) <= Number.MAX_SAFE_INTEGER;
    return isExact ? 4 * Math.ceil((last - first + 1) / 32) : Number.POSITIVE_INFINITY;
  }

  add(low: number, high: number): boolean {
    const at = high * UPPER + (low >>> 0) - this.#first;
    const word = Math.floor(at / 32);
    const bit = 1 << (at % 32);
    const bits = this.#bits[word] ?? 0;
    if ((bits & bit) !== 0) return false;
    this.#bits[word] = bits | bit;
    return true;
  }

  clear(): void {
    this.#bits.fill(0);
  }
}

/** For any ids: a table with open addressing. The random seed prevents ids chosen to collide. */
export class HashIdSet implements IdSet {
  static readonly BYTES_PER_SLOT = 8;
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #seed: number;
  /** The id 0 looks like a free slot, so it is tracked here. */
  #hasZero = false;

  /**
   * `slotCount`: a power of two, larger than the number of ids. Uses the first `BYTES_PER_SLOT`
   * bytes for each slot.
   */
  constructor(slotCount: number, seed: number, memory: Int32Array) {
    this.#slots = memory.subarray(0, 2 * slotCount);
    this.#mask = slotCount - 1;
    this.#seed = seed;
  }

  add(low: number, high: number): boolean {
    if ((low | high) === 0) {
      const isNew = !this.#hasZero;
      this.#hasZero = true;
      return isNew;
    }
    const slots = this.#slots;
    for (let slot = hashOfId(low, high, this.#seed) & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const thereLow = slots[2 * slot] ?? 0;
      const thereHigh = slots[2 * slot + 1] ?? 0;
      if (thereLow === low && thereHigh === high) return false;
      if ((thereLow | thereHigh) !== 0) continue;
      slots[2 * slot] = low;
      slots[2 * slot + 1] = high;
      return true;
    }
  }

  clear(): void {
    this.#slots.fill(0);
    this.#hasZero = false;
  }
}

/** 32 bits, each of which depends on the whole id. Mixes as MurmurHash3 does. */
export function hashOfId(low: number, high: number, seed: number): number {
  return mix((mix(low ^ seed) + high) | 0);
}

function mix(word: number): number {
  let hash = word;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
