/**
 * Splits a file into requests. Pure arithmetic; every part but the last of a file has the same
 * size.
 *
 * A part must fit half of the byte budget, so that two parts always fit. One can then be read while
 * the other is sent, and the pool can guarantee room for one (see `transfer/buffer-pool.ts`).
 * Unless a limit forces it higher, a part takes at most a quarter.
 */

import { CheckpointError, type Settings, type StoreCapabilities } from '../contract/index.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const TIB = 1024 * 1024 * MIB;

/**
 * Parts start at pages, so that memory and offsets suit direct I/O for any `alignmentBytes` of a
 * store (512 to 4,096).
 */
const PAGE_BYTES = 4096;
/** One page of a WebAssembly.Memory; the pool consists of such pages. */
const WASM_PAGE_BYTES = 64 * KIB;
/**
 * Approximate number of parts of a file: enough to keep all connections busy, and below every
 * store's limit of 10,000.
 */
const PART_COUNT_WANTED = 4000;
/** Larger parts only cost memory: 64 MiB already take most of a second on one connection. */
const PART_BYTES_PREFERRED_MAX = 64 * MIB;
/**
 * Parts of a stream of unknown length are sized so that at least this much fits, if memory allows.
 */
const STREAM_BYTES_WANTED = TIB;
/**
 * A stream is filled at the pace of its producer and holds its memory meanwhile. Smaller parts
 * allow several open streams.
 */
const STREAM_PART_BYTES_MAX = 32 * MIB;

export type PartSettings = Pick<Settings, 'bufferBytes' | 'partSizeBytesMin'>;
export type PartCapabilities = Pick<
  StoreCapabilities,
  'maxCreateBytes' | 'minPartBytes' | 'maxPartBytes' | 'maxParts'
>;

export interface PartPlan {
  /** 0 for an empty file. */
  readonly partSizeBytes: number;
  /** 0 for an empty file. */
  readonly partCount: number;
  /** Sent by one `create` instead of an upload in parts. */
  readonly isWhole: boolean;
}

export interface StreamPlan {
  readonly partSizeBytes: number;
  /** Longest stream that fits `maxParts`. */
  readonly sizeBytesMax: number;
  /** A stream of at most this many bytes is sent by one `create`. */
  readonly wholeBytesMax: number;
  /**
   * Number of streams that can be filled at the same time: they share the upper half of the pool.
   * At least 1.
   */
  readonly streamCountMax: number;
}

/** Bytes of the pool: the budget, rounded up to whole pages of a WebAssembly.Memory. */
export function poolBytes(settings: PartSettings): number {
  return roundUp(settings.bufferBytes, WASM_PAGE_BYTES);
}

/** Largest part that this budget can hold: half of the pool. */
export function partBytesMax(settings: PartSettings): number {
  return poolBytes(settings) / 2;
}

/**
 * Part size of a file of known size: clamp(power of two above size / 4,000, `partSizeBytesMin`, 64
 * MiB or a quarter of the budget). It is larger only if the store's `maxParts` requires it.
 * `Unsupported` if no part size fits store and budget.
 */
export function planParts(sizeBytes: number, settings: PartSettings, store: PartCapabilities): PartPlan {
  if (sizeBytes === 0) return { partSizeBytes: 0, partCount: 0, isWhole: true };
  const wanted = nextPowerOfTwo(Math.ceil(sizeBytes / PART_COUNT_WANTED));
  let partSizeBytes = clampPart(wanted, preferredMax(settings), settings, store);
  if (sizeBytes > partSizeBytes * store.maxParts)
    partSizeBytes = partSizeForCount(sizeBytes, settings, store);
  const isWhole = sizeBytes <= partSizeBytes && sizeBytes <= store.maxCreateBytes;
  return { partSizeBytes, partCount: Math.ceil(sizeBytes / partSizeBytes), isWhole };
}

/**
 * As `planParts`, for a file that was checksummed in parts of `unitBytes`: each part consists of
 * whole such parts, so they can be compared before they are sent. If store or budget leave no room
 * for that, the result is that of `planParts`.
 */
export function planWholeParts(
  { sizeBytes, unitBytes }: { sizeBytes: number; unitBytes: number },
  settings: PartSettings,
  store: PartCapabilities,
): PartPlan {
  const plan = planParts(sizeBytes, settings, store);
  if (plan.isWhole || unitBytes < 1) return plan;
  const partSizeBytes = roundUp(plan.partSizeBytes, unitBytes);
  if (partSizeBytes > Math.min(partBytesMax(settings), storePartMax(store))) return plan;
  const isWhole = sizeBytes <= partSizeBytes && sizeBytes <= store.maxCreateBytes;
  return { partSizeBytes, partCount: Math.ceil(sizeBytes / partSizeBytes), isWhole };
}

/**
 * Part size of a stream. Parts are equal and the length is not known, so `maxParts` of them should
 * hold 1 TiB. Memory limits this: at most 32 MiB, and four parts must fit the half of the pool that
 * streams may occupy. `sizeBytesMax` is the resulting limit.
 */
export function planStream(settings: PartSettings, store: PartCapabilities): StreamPlan {
  const wanted = nextPowerOfTwo(Math.ceil(STREAM_BYTES_WANTED / store.maxParts));
  const partSizeBytes = clampPart(wanted, streamPartBytesMax(settings), settings, store);
  return {
    partSizeBytes,
    sizeBytesMax: Math.min(partSizeBytes * store.maxParts, Number.MAX_SAFE_INTEGER),
    wholeBytesMax: Math.min(partSizeBytes, store.maxCreateBytes),
    streamCountMax: Math.floor(partBytesMax(settings) / roundUp(partSizeBytes, PAGE_BYTES)),
  };
}

/** The largest part of a stream, unless the store's minimum is above it. */
export function streamPartBytesMax(settings: PartSettings): number {
  const preferred = Math.min(STREAM_PART_BYTES_MAX, roundDown(partBytesMax(settings) / 4, PAGE_BYTES));
  return Math.min(
    partBytesMax(settings),
    Math.max(preferred, roundUp(settings.partSizeBytesMin, PAGE_BYTES)),
  );
}

function preferredMax(settings: PartSettings): number {
  return Math.min(PART_BYTES_PREFERRED_MAX, roundDown(partBytesMax(settings) / 2, PAGE_BYTES));
}

/**
 * Limits the wanted size to the preferred maximum. The minima of setting and store override that,
 * and the budget overrides both.
 */
function clampPart(
  wanted: number,
  preferred: number,
  settings: PartSettings,
  store: PartCapabilities,
): number {
  const smallest = roundUp(Math.max(settings.partSizeBytesMin, store.minPartBytes), PAGE_BYTES);
  const largest = Math.min(partBytesMax(settings), storePartMax(store));
  const partSizeBytes = Math.min(Math.max(Math.min(wanted, preferred), smallest), largest);
  if (partSizeBytes < store.minPartBytes) throw tooSmallBudget(store.minPartBytes, settings);
  return partSizeBytes;
}

/**
 * For very large files: the power of two that needs at most `maxParts` parts. If that is too large,
 * the largest permitted size, which is still sufficient.
 */
function partSizeForCount(sizeBytes: number, settings: PartSettings, store: PartCapabilities): number {
  const needed = Math.ceil(sizeBytes / store.maxParts);
  if (needed > storePartMax(store)) {
    const limit = storePartMax(store) * store.maxParts;
    throw new CheckpointError(
      'Unsupported',
      `a file of ${sizeBytes} bytes is too large for this store; it takes at most ${limit}`,
    );
  }
  const largest = Math.min(partBytesMax(settings), storePartMax(store));
  if (needed > largest) throw tooSmallBudget(needed, settings);
  return Math.min(nextPowerOfTwo(needed), largest);
}

function tooSmallBudget(partBytes: number, settings: PartSettings): CheckpointError {
  const needed = partBytes * 2;
  return new CheckpointError(
    'Unsupported',
    `setting bufferBytes is ${settings.bufferBytes}; this file and store need parts of ${partBytes} bytes, so at least ${needed}`,
  );
}

function storePartMax(store: PartCapabilities): number {
  const aligned = roundDown(store.maxPartBytes, PAGE_BYTES);
  return aligned >= Math.max(store.minPartBytes, 1) ? aligned : store.maxPartBytes;
}

function nextPowerOfTwo(value: number): number {
  const power = 2 ** Math.ceil(Math.log2(Math.max(value, 1)));
  return power < value ? power * 2 : power; // log2 rounds down just above large powers
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}

function roundDown(value: number, unit: number): number {
  return Math.floor(value / unit) * unit;
}
