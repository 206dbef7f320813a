/** Splits a copy inside a store into requests. Pure arithmetic. */

export interface CopyLimits {
  /** Largest object copied in one request. */
  readonly wholeBytesMax: number;
  /** Least size of every part but the last. */
  readonly partBytesMin: number;
  readonly partBytesMax: number;
  readonly partCountMax: number;
}

/** End exclusive. */
export interface CopyRange {
  readonly start: number;
  readonly end: number;
}

export interface CopyPlan {
  readonly partSizeBytes: number;
  /** All but the last have `partSizeBytes`. The last is at most a few bytes smaller. */
  readonly ranges: readonly CopyRange[];
}

/**
 * Null: copy in one request. Otherwise as few parts as the limits allow, of equal size, so that the
 * last is never a small rest. An object of more than `partCountMax` parts gets larger ones.
 */
export function planCopy(sizeBytes: number, limits: CopyLimits): CopyPlan | null {
  if (sizeBytes <= limits.wholeBytesMax) return null;
  const count = Math.min(Math.ceil(sizeBytes / limits.partBytesMax), limits.partCountMax);
  const partSizeBytes = Math.max(Math.ceil(sizeBytes / count), limits.partBytesMin);
  const ranges: CopyRange[] = [];
  for (let start = 0; start < sizeBytes; start += partSizeBytes)
    ranges.push({ start, end: Math.min(start + partSizeBytes, sizeBytes) });
  return { partSizeBytes, ranges };
}
