/**
 * Writes the tensors of one file, band by band: a band is a range of a tensor that fits into
 * memory. A part of the tensor that lies in it is one range of its source, which is read at once,
 * and then copied to its places.
 */

import { atATime } from '../../contract/at-a-time.ts';
import { throwIfAborted } from '../../contract/errors.ts';
import type { RandomSink, RandomSource, RestoreTarget } from '../../contract/files.ts';
import type { ProgressEvent } from '../../contract/progress.ts';
import type { JoinedTensor, TensorPart } from '../../plan/joined-tensors.ts';
import { countBefore, runsOf } from '../../plan/tensor-bands.ts';
import type { TensorFile } from '../../plan/tensor-files.ts';
import { allocate } from '../../workers/index.ts';

/** Two bands are in memory for each of those at once: as they are read, and as they are written. */
const BAND_BYTES = 8 * 1024 * 1024;
const BANDS_AT_ONCE = 4;

export interface WriteOptions {
  /** By the names of the checkpoint's files. */
  readonly sources: ReadonlyMap<string, RandomSource>;
  readonly signal: AbortSignal;
  readonly onProgress?: ((event: ProgressEvent) => void) | undefined;
}

/** The elements `start` to `end - 1` of a tensor. */
interface Band {
  readonly tensor: JoinedTensor;
  /** Place of the tensor in the file. */
  readonly offsetBytes: number;
  readonly start: number;
  readonly end: number;
}

export async function writeTensorFile(
  target: RestoreTarget,
  { name, sizeBytes: totalBytes, tensors, frames }: TensorFile,
  { sources, signal, onProgress }: WriteOptions,
): Promise<void> {
  const sink = await target.open({ name, sizeBytes: totalBytes });
  let doneBytes = 0;
  for (const { offsetBytes, bytes } of frames()) {
    throwIfAborted(signal);
    await sink.writeAt(offsetBytes, bytes);
    doneBytes += bytes.byteLength;
  }
  const memory = new Memory();
  const bands = tensors.flatMap(({ tensor, offsetBytes }) => [...bandsOf(tensor, offsetBytes)]);
  await atATime(bands, BANDS_AT_ONCE, async (band) => {
    throwIfAborted(signal);
    const bandBytes = await writeBand(sink, band, { sources, memory });
    doneBytes += bandBytes;
    if (doneBytes < totalBytes) onProgress?.({ type: 'bytes', name, doneBytes, totalBytes });
  });
  await sink.close();
  onProgress?.({ type: 'bytes', name, doneBytes: totalBytes, totalBytes });
}

/** Cut at multiples of a band in the file, so that whole pages are written. */
function* bandsOf(tensor: JoinedTensor, offsetBytes: number): Generator<Band> {
  const { shape, elementBytes } = tensor.grid;
  const count = shape.reduce((product, side) => product * side, 1);
  for (let start = 0; start < count; ) {
    const fileOffsetBytes = offsetBytes + start * elementBytes;
    const endBytes = (Math.floor(fileOffsetBytes / BAND_BYTES) + 1) * BAND_BYTES;
    const end = Math.min(Math.max(Math.floor((endBytes - offsetBytes) / elementBytes), start + 1), count);
    yield { tensor, offsetBytes, start, end };
    start = end;
  }
}

/** Returns its size. */
async function writeBand(
  sink: RandomSink,
  { tensor, offsetBytes, start, end }: Band,
  { sources, memory }: { readonly sources: WriteOptions['sources']; readonly memory: Memory },
): Promise<number> {
  const { elementBytes } = tensor.grid;
  const sizeBytes = (end - start) * elementBytes;
  const band = memory.take();
  try {
    const bytes = band.subarray(0, sizeBytes);
    for (const part of tensor.parts) await readPart(part, { tensor, start, bytes, end }, { sources, memory });
    await sink.writeAt(offsetBytes + start * elementBytes, bytes);
    return sizeBytes;
  } finally {
    memory.giveBack(band);
  }
}

/** Fills the elements of the part that lie in the band. */
async function readPart(
  part: TensorPart,
  band: Omit<Band, 'offsetBytes'> & { readonly bytes: Uint8Array },
  { sources, memory }: { readonly sources: WriteOptions['sources']; readonly memory: Memory },
): Promise<void> {
  const { shape, elementBytes } = band.tensor.grid;
  const start = countBefore(shape, part, band.start);
  const end = countBefore(shape, part, band.end);
  if (start === end) return;
  const source = sources.get(part.file) as RandomSource;
  const from = part.fileOffsetBytes + start * elementBytes;
  const inBand = ({ wholeStart }: { readonly wholeStart: number }) =>
    (wholeStart - band.start) * elementBytes;
  const runs = runsOf(shape, part, { start, end });
  const first = runs.next().value;
  if (first && first.count === end - start) {
    const at = inBand(first);
    return source.readInto(from, band.bytes.subarray(at, at + first.count * elementBytes));
  }
  const read = memory.take();
  try {
    const bytes = read.subarray(0, (end - start) * elementBytes);
    await source.readInto(from, bytes);
    for (const run of runsOf(shape, part, { start, end })) {
      const at = (run.partStart - start) * elementBytes;
      band.bytes.set(bytes.subarray(at, at + run.count * elementBytes), inBand(run));
    }
  } finally {
    memory.giveBack(read);
  }
}

/** Bands that are used again. They are aligned to pages. */
class Memory {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(allocate(BAND_BYTES, false));
  }

  giveBack(bytes: Uint8Array): void {
    this.#free.push(bytes);
  }
}
