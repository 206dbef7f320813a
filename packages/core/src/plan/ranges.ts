/**
 * Plans the reads of a stored file so that every byte can be compared before it is used. Pure.
 *
 * A record may be damaged or hostile, so everything in it is checked before anything is read or
 * allocated. Several small parts are read at once. A part that exceeds the memory for it (the
 * writer had a larger budget) is read in pieces, see `transfer/read.ts`.
 */

import { crc32cCombine } from '../contract/crc32c-combine.ts';
import { CheckpointError } from '../contract/index.ts';
import type { StoredFile } from './stored-file.ts';

const CRC_BYTES = 4;
const CRC_MAX = 0xffff_ffff;
const PARTS_PER_SAMPLE = 64;

/** One read: `partCount` whole parts from `firstPart` on. */
export interface FileRange {
  readonly startBytes: number;
  readonly lengthBytes: number;
  readonly firstPart: number;
  readonly partCount: number;
}

/** `Corrupt` unless the sizes and checksums of the record agree with each other. */
export function checkStoredFile(file: StoredFile): void {
  if (!isCount(file.sizeBytes)) throw badRecord(file, `a size of ${file.sizeBytes} bytes`);
  if (!isCount(file.crc32c) || file.crc32c > CRC_MAX) throw badRecord(file, `a checksum of ${file.crc32c}`);
  if (!isCount(file.partSizeBytes) || (file.partSizeBytes === 0) !== (file.sizeBytes === 0)) {
    throw badRecord(file, `a part size of ${file.partSizeBytes} bytes for ${file.sizeBytes} bytes`);
  }
  const partCount = countParts(file);
  if (file.partCrc32c.byteLength !== partCount * CRC_BYTES) {
    const found = file.partCrc32c.byteLength;
    throw badRecord(
      file,
      `${found} bytes of part checksums where ${partCount} parts need ${partCount * CRC_BYTES}`,
    );
  }
  const combined = combineParts(file);
  if (combined !== file.crc32c) {
    const detail = `part checksums whose combination is ${hexCrc(combined)} but ${hexCrc(file.crc32c)} is recorded for the whole`;
    throw badRecord(file, detail, { expected: hexCrc(file.crc32c), found: hexCrc(combined) });
  }
}

export function countParts(file: StoredFile): number {
  return file.sizeBytes === 0 ? 0 : Math.ceil(file.sizeBytes / file.partSizeBytes);
}

export function partCrc(file: StoredFile, part: number): number {
  // Byte by byte: creating a view of a small array costs more than reading it.
  let crc = 0;
  for (let byte = 0; byte < CRC_BYTES; byte += 1)
    crc = crc * 256 + (file.partCrc32c[part * CRC_BYTES + byte] as number);
  return crc;
}

/**
 * Reads in order that cover the bytes from `startBytes` to `endBytes` (default: the whole file),
 * each of about `readBytes` but at least one part. The file has passed `checkStoredFile`.
 */
export function* planRanges(
  file: StoredFile,
  readBytes: number,
  { startBytes, endBytes }: { startBytes: number; endBytes: number } = wholeOf(file),
): Generator<FileRange> {
  const partBytes = Math.max(1, file.partSizeBytes);
  const partEnd = Math.ceil(endBytes / partBytes);
  const partsPerRead = Math.max(1, Math.floor(readBytes / partBytes));
  for (let first = Math.floor(startBytes / partBytes); first < partEnd; first += partsPerRead) {
    yield rangeOf(file, first, Math.min(partsPerRead, partEnd - first));
  }
}

function wholeOf({ sizeBytes }: StoredFile): { startBytes: number; endBytes: number } {
  return { startBytes: 0, endBytes: sizeBytes };
}

/**
 * Reads of the first part, the last one, and one random part of every 64 in between (the last group
 * may be smaller). `draw` returns numbers in [0, 1). The file has passed `checkStoredFile`.
 */
export function* planSamples(file: StoredFile, draw: () => number): Generator<FileRange> {
  const last = countParts(file) - 1;
  if (last >= 0) yield rangeOf(file, 0, 1);
  for (let first = 1; first < last; first += PARTS_PER_SAMPLE) {
    const span = Math.min(PARTS_PER_SAMPLE, last - first);
    yield rangeOf(file, first + Math.floor(draw() * span), 1);
  }
  if (last > 0) yield rangeOf(file, last, 1);
}

/**
 * The whole parts that exactly cover these bytes; `undefined`: there are none. The file has passed
 * `checkStoredFile`.
 */
export function wholeParts(file: StoredFile, startBytes: number, lengthBytes: number): FileRange | undefined {
  const { partSizeBytes, sizeBytes } = file;
  const endBytes = startBytes + lengthBytes;
  const isWhole =
    startBytes % partSizeBytes === 0 && (endBytes % partSizeBytes === 0 || endBytes === sizeBytes);
  if (!isWhole) return undefined;
  return rangeOf(file, startBytes / partSizeBytes, Math.ceil(lengthBytes / partSizeBytes));
}

/** Byte range for people: both ends inclusive, digits in groups. */
export function describeRange(startBytes: number, lengthBytes: number): string {
  const group = (value: number) => value.toLocaleString('en-US');
  return `bytes ${group(startBytes)}–${group(startBytes + lengthBytes - 1)}`;
}

export function hexCrc(crc32c: number): string {
  return crc32c.toString(16).padStart(8, '0');
}

/** What a store says of an object that was made of other bytes than were sent. `null`: nothing. */
export function differenceFrom(
  sentCrc32c: number,
  { key, crc32c }: { readonly key: string; readonly crc32c?: number | undefined },
): { message: string; context: { key: string; expected: string; found: string } } | null {
  if (crc32c === undefined || crc32c === sentCrc32c) return null;
  const [expected, found] = [hexCrc(sentCrc32c), hexCrc(crc32c)];
  return {
    message: `the store made ${key} of ${found} out of ${expected}`,
    context: { key, expected, found },
  };
}

/**
 * The range of `partCount` whole parts. The file has passed `checkStoredFile`, and has these parts.
 */
export function rangeOf(file: StoredFile, firstPart: number, partCount: number): FileRange {
  const startBytes = firstPart * file.partSizeBytes;
  const lengthBytes = Math.min(partCount * file.partSizeBytes, file.sizeBytes - startBytes);
  return { startBytes, lengthBytes, firstPart, partCount };
}

function combineParts(file: StoredFile): number {
  const partCount = countParts(file);
  let combined = 0;
  for (let part = 0; part < partCount; part += 1) {
    combined = crc32cCombine(combined, partCrc(file, part), rangeOf(file, part, 1).lengthBytes);
  }
  return combined;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function badRecord(
  file: StoredFile,
  detail: string,
  found: { expected?: string; found?: string } = {},
): CheckpointError {
  return new CheckpointError('Corrupt', `the record of "${file.name}" has ${detail}`, {
    context: { name: file.name, key: file.key, ...found },
  });
}
