import type { RandomSink } from '../contract/index.ts';
import { checkStoredFile, type FileRange, planRanges } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { DownloadItem } from './api.ts';
import { ReadMemory } from './hedged-read.ts';
import { FileProgress } from './progress.ts';
import { isOversized, memoryBytes, pieceBytes, readOversizedPart, readParts } from './read.ts';
import { FileTurns, type Transfer } from './transfer.ts';

/** Reads one file, verifies it, and writes it to its sink. The sink is closed when this settles. */
export async function downloadFile({ file, sink: open }: DownloadItem, transfer: Transfer): Promise<void> {
  checkStoredFile(file);
  await transfer.expect(file.sizeBytes);
  const close = (sink: RandomSink) => transfer.tidyUp(`close of "${file.name}"`, () => sink.close());
  const sink = await transfer.local(`open of "${file.name}"`, open, { onLate: close });
  const progress = new FileProgress(file.name, file.sizeBytes, transfer.options);
  let isClosed = false;
  try {
    const turns = new FileTurns(transfer, file.sizeBytes > file.partSizeBytes);
    for (const range of planRanges(file, transfer.settings.partSizeBytesMin)) {
      await turns.next(() => copyRange(transfer, file, range, sink, progress));
      if (transfer.signal.aborted) break;
    }
    await turns.settled();
    await transfer.local(`completion of "${file.name}"`, () => {
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
  transfer: Transfer,
  file: StoredFile,
  range: FileRange,
  sink: RandomSink,
  progress: FileProgress,
): Promise<void> {
  const oversized = isOversized(range, transfer);
  const room = oversized ? pieceBytes(transfer) : memoryBytes(file, range, transfer);
  const memory = ReadMemory.of(await transfer.pool.acquire(room, transfer.signal));
  const write = async (startBytes: number, bytes: Uint8Array) => {
    const { buffer } = memory;
    await transfer.local(`write of "${file.name}"`, () => sink.writeAt(startBytes, bytes), { buffer });
    progress.add(bytes.byteLength);
  };
  try {
    if (oversized) {
      for await (const piece of readOversizedPart(transfer, file, range, () => memory))
        await write(piece.startBytes, piece.bytes);
    } else {
      await write(range.startBytes, await readParts(transfer, file, range, memory));
    }
  } finally {
    memory.release();
  }
}
