/** Splits a copy inside S3 into requests. Pure arithmetic. */

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

export interface CopyLimits {
  /** Largest object copied in one request. */
  readonly wholeBytesMax: number;
  /** Least size of every part but the last. */
  readonly partBytesMin: number;
  readonly partBytesMax: number;
  readonly partCountMax: number;
}

/**
 * Limits of S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html. AWS rejects more
 * than 5 GiB at once. Other servers accept it.
 */
export const S3_COPY_LIMITS: CopyLimits = {
  wholeBytesMax: 5 * GIB,
  partBytesMin: 5 * MIB,
  partBytesMax: 5 * GIB,
  partCountMax: 10_000,
};

/**
 * Limits that Holdfast uses: one request moves some hundred MB/s at best, so larger parts would
 * exceed request timeouts.
 */
export const COPY_LIMITS: CopyLimits = {
  ...S3_COPY_LIMITS,
  wholeBytesMax: 256 * MIB,
  partBytesMax: 256 * MIB,
};

/** End exclusive. */
export interface CopyRange {
  readonly start: number;
  readonly end: number;
}

export interface CopyPlan {
  readonly partSizeBytes: number;
  /** All of one size but the last, which is hardly smaller. */
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
