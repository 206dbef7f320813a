/** Durations of reads, by size. Whether a read is slow depends on the others. */

/** For each size, this many of the latest are kept. */
const REMEMBERED = 32;
/** Fewer samples do not show what is usual. */
const SAMPLES_MIN = 4;

export class ReadTimes {
  /** By the power of two at or below their length. */
  readonly #bySize = new Map<number, { readonly ms: number[]; next: number }>();

  note(lengthBytes: number, ms: number): void {
    const size = Math.clz32(lengthBytes);
    let times = this.#bySize.get(size);
    if (times === undefined) {
      times = { ms: [], next: 0 };
      this.#bySize.set(size, times);
    }
    times.ms[times.next] = ms;
    times.next = (times.next + 1) % REMEMBERED;
  }

  /** Median of the latest reads of about this length; `undefined` while there are too few. */
  medianMs(lengthBytes: number): number | undefined {
    const ms = this.#bySize.get(Math.clz32(lengthBytes))?.ms ?? [];
    if (ms.length < SAMPLES_MIN) return undefined;
    return ms.toSorted((a, b) => a - b)[ms.length >> 1];
  }
}
