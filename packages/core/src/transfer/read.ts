/**
 * Reads stored files so that no byte is used before it was compared. A mismatch is read once more,
 * because a bit may have flipped on the way. After that it is `Corrupt`, with file, range, expected
 * and found.
 */

import { crc32cCombine } from '../contract/crc32c-combine.ts';
import { CheckpointError, isCheckpointError } from '../contract/index.ts';
import { partBytesMax } from '../plan/parts.ts';
import { describeRange, type FileRange, hexCrc, partCrc } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import { type ReadMemory, readHedged } from './hedged-read.ts';
import type { RequestCall } from './stall.ts';
import type { Transfer } from './transfer.ts';

/** Verified bytes of a file. */
export interface VerifiedPiece {
  readonly startBytes: number;
  readonly bytes: Uint8Array;
}

/** The part does not fit into the memory for one read, because its writer had a larger budget. */
export function isOversized(range: FileRange, transfer: Transfer): boolean {
  return range.lengthBytes > partBytesMax(transfer.settings);
}

/** Bytes of an oversized part that are read at a time. */
export function pieceBytes(transfer: Transfer): number {
  return Math.min(transfer.settings.partSizeBytesMin, partBytesMax(transfer.settings));
}

/**
 * Memory to request for a range. It is rounded up at the end of a file, so that an aligned read is
 * possible there too.
 */
export function memoryBytes(file: StoredFile, range: FileRange, transfer: Transfer): number {
  const isLast = range.startBytes + range.lengthBytes === file.sizeBytes;
  const unit = transfer.capabilities.alignmentBytes;
  return isLast
    ? Math.min(Math.ceil(range.lengthBytes / unit) * unit, partBytesMax(transfer.settings))
    : range.lengthBytes;
}

/**
 * Reads the parts of `range` into `memory` and compares each. `memory` has `memoryBytes`, or
 * exactly the length of the range. Resolves to the bytes of the range.
 */
export async function readParts(
  transfer: Transfer,
  file: StoredFile,
  range: FileRange,
  memory: ReadMemory,
): Promise<Uint8Array> {
  const { startBytes, lengthBytes } = range;
  await twice(transfer, async () => {
    const problem = await fill(transfer, file, startBytes, lengthBytes, memory, memory.bytes.byteLength);
    return problem ?? comparePartsOf(transfer, file, range, memory.bytes.subarray(0, lengthBytes));
  });
  return memory.bytes.subarray(0, lengthBytes);
}

/** Reads any bytes of the file. They need not be whole parts, so the caller must compare them. */
export async function readUncompared(
  transfer: Transfer,
  file: StoredFile,
  startBytes: number,
  memory: ReadMemory,
): Promise<void> {
  const problem = await fill(transfer, file, startBytes, memory.bytes.byteLength, memory);
  if (problem) throw problem;
}

/** The error for a whole file whose checksum differs from its record. */
export function wholeMismatch(file: StoredFile, found: number): CheckpointError {
  return mismatch(file, 0, file.sizeBytes, file.crc32c, found);
}

/**
 * An oversized part cannot be compared as a whole before some of it is returned, so it is read
 * twice. The first reading compares the whole part and notes the checksum of each piece. The second
 * returns the pieces and compares them with those checksums. `memory` is called once for the first
 * reading, and for each piece of the second.
 */
export async function* readOversizedPart(
  transfer: Transfer,
  file: StoredFile,
  range: FileRange,
  memory: (lengthBytes: number) => ReadMemory,
): AsyncGenerator<VerifiedPiece, void, void> {
  const crcs = await checkOversizedPart(transfer, file, range, memory(pieceBytes(transfer)));
  let startBytes = range.startBytes;
  for (const crc of crcs) {
    const lengthBytes = Math.min(pieceBytes(transfer), range.startBytes + range.lengthBytes - startBytes);
    const target = memory(lengthBytes);
    await twice(transfer, async () => {
      const problem = await fill(transfer, file, startBytes, lengthBytes, target);
      return problem ?? compare(transfer, file, startBytes, target.bytes.subarray(0, lengthBytes), crc);
    });
    yield { startBytes, bytes: target.bytes.subarray(0, lengthBytes) };
    startBytes += lengthBytes;
  }
}

/**
 * Compares an oversized part without returning its bytes. Resolves to the checksums of its pieces.
 */
export async function checkOversizedPart(
  transfer: Transfer,
  file: StoredFile,
  range: FileRange,
  memory: ReadMemory,
): Promise<number[]> {
  let crcs: number[] = [];
  await twice(transfer, async () => {
    crcs = [];
    let combined = 0;
    for (let done = 0; done < range.lengthBytes; ) {
      const lengthBytes = Math.min(memory.bytes.byteLength, range.lengthBytes - done);
      const problem = await fill(transfer, file, range.startBytes + done, lengthBytes, memory);
      if (problem) return problem;
      const crc = await transfer.workers.crc32c(memory.bytes.subarray(0, lengthBytes));
      crcs.push(crc);
      combined = crc32cCombine(combined, crc, lengthBytes);
      done += lengthBytes;
    }
    const expected = partCrc(file, range.firstPart);
    return combined === expected
      ? null
      : mismatch(file, range.startBytes, range.lengthBytes, expected, combined);
  });
  return crcs;
}

async function twice(transfer: Transfer, read: () => Promise<CheckpointError | null>): Promise<void> {
  const first = await read();
  if (first === null) return;
  transfer.options.onRetry?.(`${first.message}; reading it once more`);
  const second = await read();
  if (second !== null) throw second;
}

/**
 * Reads `lengthBytes` to the beginning of `memory`, but requests `roomBytes`: the store returns
 * more only if the object is too long. Resolves to `null`, or to the problem with the answer.
 * Throws at once if the object is missing.
 */
async function fill(
  transfer: Transfer,
  file: StoredFile,
  startBytes: number,
  lengthBytes: number,
  memory: ReadMemory,
  roomBytes = lengthBytes,
): Promise<CheckpointError | null> {
  const what = `read of "${file.name}" at ${startBytes}`;
  const into = (bytes: Uint8Array, { signal, onBytes }: RequestCall) =>
    transfer.store.readInto(file.key, startBytes, bytes, { signal, onBytes });
  const found = await readHedged(transfer, { what, memory, lengthBytes: roomBytes, into }).catch(
    (error: unknown) => {
      throw isCheckpointError(error, 'NotFound') ? missing(file, error) : error;
    },
  );
  if (found === lengthBytes) return null;
  const isShort = found < lengthBytes;
  const size = isShort
    ? endsEarly(startBytes, found, file.sizeBytes)
    : `is longer than its ${file.sizeBytes} bytes`;
  return corrupt(
    file,
    `"${file.name}" ${size} (${file.key})`,
    startBytes,
    lengthBytes,
    String(lengthBytes),
    String(found),
  );
}

/** For an object that ended before what was read of it. A read that found nothing knows no size. */
export function endsEarly(startBytes: number, foundBytes: number, sizeBytes: number): string {
  const isBefore = startBytes > 0 && foundBytes === 0;
  return `ends ${isBefore ? 'at or before' : 'after'} ${startBytes + foundBytes} of ${sizeBytes} bytes`;
}

async function comparePartsOf(
  transfer: Transfer,
  file: StoredFile,
  range: FileRange,
  bytes: Uint8Array,
): Promise<CheckpointError | null> {
  for (let index = 0; index < range.partCount; index += 1) {
    const at = index * file.partSizeBytes;
    const part = bytes.subarray(at, at + file.partSizeBytes);
    const expected = partCrc(file, range.firstPart + index);
    const problem = await compare(transfer, file, range.startBytes + at, part, expected);
    if (problem !== null) return problem;
  }
  return null;
}

async function compare(
  transfer: Transfer,
  file: StoredFile,
  startBytes: number,
  bytes: Uint8Array,
  expected: number,
): Promise<CheckpointError | null> {
  const found = await transfer.workers.crc32c(bytes);
  return found === expected ? null : mismatch(file, startBytes, bytes.byteLength, expected, found);
}

export function mismatch(
  file: StoredFile,
  startBytes: number,
  lengthBytes: number,
  expected: number,
  found: number,
): CheckpointError {
  const range = describeRange(startBytes, lengthBytes);
  const detail = `expected ${hexCrc(expected)}, found ${hexCrc(found)}, in ${file.key}`;
  const message = `${file.name} ${range} do not match their checksum (${detail})`;
  return corrupt(file, message, startBytes, lengthBytes, hexCrc(expected), hexCrc(found));
}

/** The record names an object that does not exist. */
export function missing(file: StoredFile, cause: CheckpointError): CheckpointError {
  const message = `"${file.name}" is missing: there is no object ${file.key}`;
  return new CheckpointError('Corrupt', message, { context: { name: file.name, key: file.key }, cause });
}

function corrupt(
  file: StoredFile,
  message: string,
  start: number,
  lengthBytes: number,
  expected: string,
  found: string,
): CheckpointError {
  const range = { start, end: start + lengthBytes };
  return new CheckpointError('Corrupt', message, {
    context: { name: file.name, key: file.key, range, expected, found },
  });
}
