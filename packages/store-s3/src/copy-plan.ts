/** Into how many requests a copy inside S3 is cut. Pure arithmetic. */

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

export interface CopyLimits {
  /** Up to so many bytes are copied in one request. */
  readonly wholeBytesMax: number;
  /** Of every part but the last. */
  readonly partBytesMin: number;
  readonly partBytesMax: number;
  readonly partCountMax: number;
}

/**
 * What S3 takes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html. More than 5 GiB
 * at once is refused by AWS, and taken by others.
 */
export const S3_COPY_LIMITS: CopyLimits = {
  wholeBytesMax: 5 * GIB,
  partBytesMin: 5 * MIB,
  partBytesMax: 5 * GIB,
  partCountMax: 10_000,
};

/**
 * What we ask for: each request moves some hundred MB/s at best, so larger parts take longer than
 * anybody waits for an answer.
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
  /** Of one size but the last, which is hardly smaller. */
  readonly ranges: readonly CopyRange[];
}

/**
 * Null: one request. As few parts as the limits allow, all of them alike, so that the last is never
 * a small rest. An object of more than `partCountMax` parts gets larger ones.
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
