/**
 * Records what was read of a part before it could be compared, so that it can be verified later.
 * Each reading has a range and a CRC32C, which is a claim about the content of the part. Adjoining
 * claims become one, whichever reads made them. So a part that was read in order is one claim.
 * Pure.
 */

import { crc32cCombine } from '../contract/crc32c-combine.ts';

/** Bytes of a file, end exclusive, and the checksum of what was read there. */
export interface Reading {
  readonly startBytes: number;
  readonly endBytes: number;
  readonly crc32c: number;
}

/** The readings of one part. */
export class PartReadings {
  /** No two start at the same byte, and no two end at the same byte. They may still overlap. */
  readonly #byStart = new Map<number, Reading>();
  readonly #byEnd = new Map<number, Reading>();
  /** Readings that start or end where another one does. */
  readonly #repeats = new Map<string, Reading>();
  #addCount = 0;

  /** Grows with each `add`. */
  get addCount(): number {
    return this.#addCount;
  }

  /** Adds a reading of at least one byte. Takes constant time. */
  add(reading: Reading): void {
    this.#addCount += 1;
    const { startBytes, endBytes, crc32c } = reading;
    if (this.#byStart.has(startBytes) || this.#byEnd.has(endBytes)) {
      this.#repeats.set(`${startBytes}-${endBytes}-${crc32c}`, reading);
      return;
    }
    const before = this.#byEnd.get(startBytes);
    const after = this.#byStart.get(endBytes);
    let joined = reading;
    if (before) joined = this.#joined(before, joined);
    if (after) joined = this.#joined(joined, after);
    this.#byStart.set(joined.startBytes, joined);
    this.#byEnd.set(joined.endBytes, joined);
  }

  /** All readings, sorted by first byte. */
  inOrder(): Reading[] {
    const all = [...this.#byStart.values(), ...this.#repeats.values()];
    return all.sort((a, b) => a.startBytes - b.startBytes);
  }

  #joined(first: Reading, second: Reading): Reading {
    for (const { startBytes, endBytes } of [first, second]) {
      this.#byStart.delete(startBytes);
      this.#byEnd.delete(endBytes);
    }
    const { startBytes } = first;
    const { endBytes } = second;
    const crc32c = crc32cCombine(first.crc32c, second.crc32c, endBytes - second.startBytes);
    return { startBytes, endBytes, crc32c };
  }
}

/** A piece of a part whose readings must be verified together. */
export interface Section {
  readonly startBytes: number;
  readonly endBytes: number;
  /**
   * Empty: not read. One reading: it covers the whole section. Several: they overlap, so no single
   * one covers the section.
   */
  readonly readings: readonly Reading[];
}

/** Splits a part, in order and without a gap. `readings`: all of it, sorted by first byte. */
export function* sectionsOf(
  part: { readonly startBytes: number; readonly endBytes: number },
  readings: readonly Reading[],
): Generator<Section> {
  let at = part.startBytes;
  for (let index = 0; index < readings.length; ) {
    const { startBytes } = readings[index] as Reading;
    if (startBytes > at) yield { startBytes: at, endBytes: startBytes, readings: [] };
    const together: Reading[] = [];
    at = startBytes + 1;
    for (let next = readings[index]; next !== undefined && next.startBytes < at; next = readings[index]) {
      together.push(next);
      at = Math.max(at, next.endBytes);
      index += 1;
    }
    yield { startBytes, endBytes: at, readings: together };
  }
  if (at < part.endBytes) yield { startBytes: at, endBytes: part.endBytes, readings: [] };
}

/**
 * Offsets at which the running checksum must be noted, to compute the expected checksum of each
 * reading. Ascending, without duplicates.
 */
export function cutsOf(section: Section): number[] {
  const cuts = section.readings.flatMap(({ startBytes, endBytes }) => [startBytes, endBytes]);
  return [...new Set(cuts)].sort((a, b) => a - b);
}

/**
 * The first reading that differs from the stored bytes, and its expected checksum. `crcAt`:
 * checksum of the section's bytes up to a cut. Two such checksums give that of the bytes between
 * the cuts: `crc32cCombine` is its own inverse here, because it XORs the shifted first checksum.
 */
export function firstDifferent(
  section: Section,
  crcAt: (cutBytes: number) => number,
): { readonly reading: Reading; readonly expected: number } | undefined {
  for (const reading of section.readings) {
    const { startBytes, endBytes } = reading;
    const expected = crc32cCombine(crcAt(startBytes), crcAt(endBytes), endBytes - startBytes);
    if (expected !== reading.crc32c) return { reading, expected };
  }
  return undefined;
}
