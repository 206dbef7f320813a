/**
 * What was read of a part before anybody could compare it, so that it can be proven later: for each reading its range and its CRC32C,
 * which is a claim about what the part holds. Claims that lie one after the other become one, whoever made them; so a part that was read
 * in order is one claim. Pure.
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
  /** No two begin at the same byte, and no two end at the same. They may overlap all the same. */
  readonly #byStart = new Map<number, Reading>();
  readonly #byEnd = new Map<number, Reading>();
  /** Those that begin or end where another one does. */
  readonly #repeats = new Map<string, Reading>();
  #addCount = 0;

  /** Grows with each `add`. */
  get addCount(): number {
    return this.#addCount;
  }

  /** Of at least one byte. Takes the same time however many there are. */
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

  /** All, by their first byte. */
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

/** A piece of a part for which what was read has to be proven as a whole. */
export interface Section {
  readonly startBytes: number;
  readonly endBytes: number;
  /** None: nobody has read it. One: all of it. Several: each overlaps another, so none of them can stand for the piece. */
  readonly readings: readonly Reading[];
}

/** Cuts a part, in order and without a gap. `readings`: all of it, by their first byte. */
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

/** Where the checksum so far has to be noted, to tell from it what each of the readings should have been. In order, each once. */
export function cutsOf(section: Section): number[] {
  const cuts = section.readings.flatMap(({ startBytes, endBytes }) => [startBytes, endBytes]);
  return [...new Set(cuts)].sort((a, b) => a - b);
}

/**
 * The first reading that differs from what lies there, and the checksum that it should have had. `crcAt`: of the section's bytes up to a
 * cut. From two of those follows that of the bytes between them: what `crc32cCombine` does to the first, it takes away again.
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
