/** The files of a measurement: their number, size and content. */

import { closeSync, mkdirSync, openSync, readdirSync, readSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';

const KIB = 1024;
const UNITS = { B: 1, KiB: KIB, MiB: KIB ** 2, GiB: KIB ** 3 } as const;
export const MIB = UNITS.MiB;
export const GIB = UNITS.GiB;

export interface Shape {
  /** For example `16x64MiB`. */
  readonly name: string;
  readonly fileCount: number;
  readonly fileBytes: number;
}

/** Parses a shape: "16x64MiB" means 16 files of 64 MiB. */
export function parseShape(text: string): Shape {
  const match = /^([1-9]\d{0,6})x([1-9]\d{0,6})(B|KiB|MiB|GiB)$/.exec(text);
  if (match === null)
    throw new Error(`--shapes has "${text}"; write COUNTxSIZE, as in 16x64MiB or 10000x1KiB`);
  const fileBytes = Number(match[2]) * UNITS[match[3] as keyof typeof UNITS];
  return { name: text, fileCount: Number(match[1]), fileBytes };
}

/** A smaller shape of the same kind: smaller large files, or fewer small files. */
export function scaleShape(shape: Shape, scale: number): Shape {
  if (scale === 1) return shape;
  const isLarge = shape.fileBytes >= MIB;
  const fileBytes = isLarge
    ? Math.max(Math.round((shape.fileBytes * scale) / KIB), 1) * KIB
    : shape.fileBytes;
  const fileCount = isLarge ? shape.fileCount : Math.max(Math.round(shape.fileCount * scale), 1);
  return { name: `${fileCount}x${sizeText(fileBytes)}`, fileCount, fileBytes };
}

/** Uses the largest unit in which the size is a whole number. */
export function sizeText(bytes: number): string {
  const [unit, size] = Object.entries(UNITS)
    .reverse()
    .find(([, each]) => bytes % each === 0) ?? ['B', 1];
  return `${bytes / size}${unit}`;
}

export function totalBytes(shape: Shape): number {
  return shape.fileCount * shape.fileBytes;
}

/**
 * Random bytes that all files consist of. No layer can compress them, and the discarding server can
 * recreate the files. File number i begins at `ROTATION_BYTES` * i and wraps around.
 */
export const PATTERN_BYTES = 64 * MIB;
export const ROTATION_BYTES = 4096;

export function makePattern(): Buffer {
  const pattern = Buffer.alloc(PATTERN_BYTES);
  for (let at = 0; at < PATTERN_BYTES; at += 65_536)
    crypto.getRandomValues(pattern.subarray(at, at + 65_536));
  return pattern;
}

/**
 * The pieces of the pattern that form bytes `startBytes` to `endBytes` (exclusive) of a file with
 * this rotation.
 */
export function* patternPieces(
  pattern: Buffer,
  range: { rotationBytes: number; startBytes: number; endBytes: number },
): Generator<Buffer> {
  for (let at = range.startBytes; at < range.endBytes; ) {
    const from = (range.rotationBytes + at) % pattern.length;
    const length = Math.min(pattern.length - from, range.endBytes - at);
    yield pattern.subarray(from, from + length);
    at += length;
  }
}

export function writeFiles(directory: string, shape: Shape, pattern: Buffer): void {
  mkdirSync(directory, { recursive: true });
  for (let index = 0; index < shape.fileCount; index++) {
    const file = openSync(join(directory, fileName(index)), 'w');
    const rotationBytes = (index * ROTATION_BYTES) % pattern.length;
    for (const piece of patternPieces(pattern, { rotationBytes, startBytes: 0, endBytes: shape.fileBytes }))
      writeSync(file, piece);
    closeSync(file);
  }
}

/** The name of a file of a shape; `index` counts from 0. */
export function fileName(index: number): string {
  return `part-${String(index).padStart(5, '0')}.bin`;
}

interface RestoredFiles {
  readonly names: readonly string[];
  readonly compareBytes: boolean;
  readonly range?: readonly [number, number] | undefined;
}

/**
 * Throws unless `directory` contains exactly the files `names` of `source`. It checks sizes, and
 * bytes if `compareBytes` is true. With `range` each has only these bytes of its original.
 */
export function assertRestored(
  directory: string,
  source: string,
  { names, compareBytes, range }: RestoredFiles,
): void {
  const wanted = [...names].sort();
  const found = readdirSync(directory).sort();
  if (wanted.join() !== found.join())
    throw new Error(
      `${directory} has ${found.length} files (${found.slice(0, 3).join(', ')} …), not ${wanted.length} of ${source}`,
    );
  for (const name of wanted) {
    const [copy, original] = [join(directory, name), join(source, name)];
    const size = statSync(copy).size;
    const [start, end] = range ?? [0, statSync(original).size];
    const sizeWanted = end - start;
    if (size !== sizeWanted) throw new Error(`${copy} has ${size} bytes, not ${sizeWanted}`);
    if (compareBytes && checksumOf(copy, 0, size) !== checksumOf(original, start, end))
      throw new Error(`${copy} does not hold the bytes of ${original}`);
  }
}

const READ_BUFFER = Buffer.alloc(4 * MIB);

function checksumOf(path: string, startBytes: number, endBytes: number): number {
  const file = openSync(path, 'r');
  let crc = 0;
  for (let at = startBytes; at < endBytes; ) {
    const read = readSync(file, READ_BUFFER, 0, Math.min(READ_BUFFER.length, endBytes - at), at);
    if (read === 0) throw new Error(`${path} ends at byte ${at}`);
    crc = crc32(READ_BUFFER.subarray(0, read), crc);
    at += read;
  }
  closeSync(file);
  return crc;
}
