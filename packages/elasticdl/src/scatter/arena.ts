/**
 * The memory that rows pass through: one block for input and output. Within one block, `copyWithin`
 * copies a row in half the time of `set`, since it needs no view. The block starts at a page, as
 * the kernel requires for files written past the page cache.
 */

import { CheckpointError } from '@holdfast/core/contract';
import { DIRECT_ALIGNMENT_BYTES as PAGE_BYTES } from '@holdfast/local-files';

/** Page size of WebAssembly, which is used because it allocates aligned memory. */
const WASM_PAGE_BYTES = 65_536;

/** The part of `WebAssembly` that is used; the language's type library does not include it. */
interface WasmMemoryConstructor {
  new (pages: { initial: number; maximum: number }): { readonly buffer: ArrayBuffer };
}
declare const WebAssembly: { readonly Memory: WasmMemoryConstructor };

/** Larger buffers save hardly any requests. */
const BUFFER_BYTES_WANTED = 4 * 1024 * 1024;
const READS_AT_ONCE_MAX = 16;
/** Positions in it are 32-bit integers. */
const ARENA_BYTES_MAX = 2 ** 30;
/** One is filled, one is written, one waits. */
const BUFFERS_PER_SINK_MAX = 3;

/** Part of the arena, by its offset there. */
export interface Stretch {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

export interface Arena {
  readonly memory: ArrayBuffer;
  /** For input. At least two, all of one size. */
  readonly incoming: readonly Stretch[];
  readonly incomingBytes: number;
  /** For output: at least one for each sink. */
  readonly outgoing: readonly Stretch[];
}

export interface ArenaNeeds {
  /** Upper limit. */
  readonly sizeBytes: number;
  /** Size of everything that may pass through. The arena takes no more than that can use. */
  readonly usefulBytes: number;
  readonly sinkCount: number;
  readonly rowBytesMax: number;
}

/**
 * `InvalidArgument`: too little memory for one of the longest rows per sink and two to read. The
 * message says how much is needed.
 */
export function createArena({ sizeBytes, usefulBytes, sinkCount, rowBytesMax }: ArenaNeeds): Arena {
  // A row, its id, and room to start anywhere in a page.
  const leastBytes = pagesUp(rowBytesMax + 8) + PAGE_BYTES;
  const halfBytesMin = leastBytes * (2 + sinkCount);
  if (sizeBytes < 2 * halfBytesMin) {
    const neededBytes = 4 * halfBytesMin;
    throw new CheckpointError(
      'InvalidArgument',
      `memory for ${sizeBytes} bytes of rows is not enough: rows of up to ${rowBytesMax} bytes for ${sinkCount} shards at once need at least ${2 * halfBytesMin}; raise bufferBytes to ${neededBytes}`,
      { context: { option: 'bufferBytes', neededBytes } },
    );
  }
  const halfBytes = Math.min(sizeBytes / 2, ARENA_BYTES_MAX / 2, halfBytesMin + 2 * usefulBytes);
  const incoming = stretches(halfBytes, { least: leastBytes, countMin: 2, countMax: READS_AT_ONCE_MAX });
  const outgoing = stretches(halfBytes, {
    least: leastBytes,
    countMin: sinkCount,
    countMax: BUFFERS_PER_SINK_MAX * sinkCount,
  });
  const outgoingAt = incoming.count * incoming.bytes;
  const bytes = outgoingAt + outgoing.count * outgoing.bytes;
  const pages = Math.ceil(bytes / WASM_PAGE_BYTES);
  return {
    memory: new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer,
    incoming: laidOut(0, incoming),
    incomingBytes: incoming.bytes,
    outgoing: laidOut(outgoingAt, outgoing),
  };
}

interface Stretches {
  readonly count: number;
  readonly bytes: number;
}

function stretches(
  sizeBytes: number,
  { least, countMin, countMax }: { least: number; countMin: number; countMax: number },
): Stretches {
  const wanted = Math.max(BUFFER_BYTES_WANTED, least);
  const count = Math.min(Math.max(Math.floor(sizeBytes / wanted), countMin), countMax);
  const bytes = Math.min(sizeBytes / count, wanted);
  return { count, bytes: Math.floor(bytes / PAGE_BYTES) * PAGE_BYTES };
}

function laidOut(offsetBytes: number, { count, bytes }: Stretches): Stretch[] {
  return Array.from({ length: count }, (_, at) => ({
    offsetBytes: offsetBytes + at * bytes,
    sizeBytes: bytes,
  }));
}

function pagesUp(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
}
