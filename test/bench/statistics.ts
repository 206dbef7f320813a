/** Median and spread: what is published of a handful of rounds. */

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
}

/** Of an even number of values: the mean of the middle two. `NaN` in all fields but `count` if there is none. */
export function summarize(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[(sorted.length - 1) >> 1] ?? Number.NaN;
  const high = sorted[sorted.length >> 1] ?? Number.NaN;
  return {
    median: (low + high) / 2,
    min: sorted[0] ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  };
}

export function median(values: readonly number[]): number {
  return summarize(values).median;
}

/** "median [min–max]"; "–" if there is no value. */
export function spread(values: readonly number[], digits = 2): string {
  if (values.length === 0) return '–';
  const { median, min, max } = summarize(values);
  return `${median.toFixed(digits)} [${min.toFixed(digits)}–${max.toFixed(digits)}]`;
}
