/** Median and spread of a few rounds, for publication. */

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly count: number;
}

/**
 * For an even number of values the median is the mean of the middle two. Without values all fields
 * but `count` are `NaN`.
 */
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

/** Formats "median [min–max]", or "–" without values. */
export function spread(values: readonly number[], digits = 2): string {
  if (values.length === 0) return '–';
  const { median, min, max } = summarize(values);
  return `${median.toFixed(digits)} [${min.toFixed(digits)}–${max.toFixed(digits)}]`;
}
