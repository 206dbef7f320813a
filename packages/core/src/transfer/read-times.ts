/** How long reads take, by size: what is slow for one of them depends on the others. */

/** Of each size the last so many are remembered. */
const REMEMBERED = 32;
/** Fewer say nothing about what is usual. */
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

  /** Of the last reads of about this length; nothing as long as there are too few. */
  medianMs(lengthBytes: number): number | undefined {
    const ms = this.#bySize.get(Math.clz32(lengthBytes))?.ms ?? [];
    if (ms.length < SAMPLES_MIN) return undefined;
    return ms.toSorted((a, b) => a - b)[ms.length >> 1];
  }
}
