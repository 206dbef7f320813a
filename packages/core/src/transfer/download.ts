import type { RandomSink } from '../contract/index.ts';
import { checkStoredFile, type FileRange, planRanges } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { DownloadItem } from './api.ts';
import { ReadMemory } from './hedged-read.ts';
import { FileProgress } from './progress.ts';
import { isOversized, memoryBytes, pieceBytes, readOversizedPart, readParts } from './read.ts';
import { FileTurns, type Run } from './run.ts';

/** Reads one file, verifies it, and writes it to its sink. The sink is closed when this settles. */
export async function downloadFile({ file, sink: open }: DownloadItem, run: Run): Promise<void> {
  checkStoredFile(file);
  const close = (sink: RandomSink) => run.tidyUp(`close of "${file.name}"`, () => sink.close());
  const sink = await run.local(`open of "${file.name}"`, open, { onLate: close });
  const progress = new FileProgress(file.name, file.sizeBytes, run.options);
  let isClosed = false;
  try {
    const turns = new FileTurns(run, file.sizeBytes > file.partSizeBytes);
    for (const range of planRanges(file, run.settings.partSizeBytesMin)) {
      await turns.next(() => copyRange(run, file, range, sink, progress));
      if (run.signal.aborted) break;
    }
    await turns.settled();
    await run.local(`completion of "${file.name}"`, () => {
      isClosed = true;
      return sink.close(); // its error counts: the file may not be durable
    });
  } catch (error) {
    if (!isClosed) await close(sink);
    throw error;
  }
  progress.finish(file.sizeBytes);
}

async function copyRange(
  run: Run,
  file: StoredFile,
  range: FileRange,
  sink: RandomSink,
  progress: FileProgress,
): Promise<void> {
  const oversized = isOversized(range, run);
  const room = oversized ? pieceBytes(run) : memoryBytes(file, range, run);
  const memory = ReadMemory.of(await run.pool.acquire(room, run.signal));
  const write = async (startBytes: number, bytes: Uint8Array) => {
    const { buffer } = memory;
    await run.local(`write of "${file.name}"`, () => sink.writeAt(startBytes, bytes), { buffer });
    progress.add(bytes.byteLength);
  };
  try {
    if (oversized) {
      for await (const piece of readOversizedPart(run, file, range, () => memory))
        await write(piece.startBytes, piece.bytes);
    } else {
      await write(range.startBytes, await readParts(run, file, range, memory));
    }
  } finally {
    memory.release();
  }
}
