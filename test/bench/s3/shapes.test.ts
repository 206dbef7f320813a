import { randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  assertRestored,
  fileName,
  parseShape,
  patternPieces,
  scaleShape,
  sizeText,
  writeFiles,
} from './shapes.ts';

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-shapes-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

test('parseShape: count and size, and words for what is neither', () => {
  expect(parseShape('16x64MiB')).toEqual({ name: '16x64MiB', fileCount: 16, fileBytes: 64 * 1024 ** 2 });
  expect(() => parseShape('64MB')).toThrow(/COUNTxSIZE/);
});

test('scaleShape: large files become smaller, small ones fewer', () => {
  expect(scaleShape(parseShape('1x1GiB'), 0.5).name).toBe('1x512MiB');
  expect(scaleShape(parseShape('10000x1KiB'), 0.01).name).toBe('100x1KiB');
  expect(sizeText(1536)).toBe('1536B');
});

test('patternPieces: go round the pattern, from the rotation on', () => {
  const pattern = Buffer.from('0123456789');
  const text = (rotationBytes: number, startBytes: number, endBytes: number) =>
    Buffer.concat([...patternPieces(pattern, { rotationBytes, startBytes, endBytes })]).toString();
  expect(text(0, 0, 12)).toBe('012345678901');
  expect(text(4, 3, 9)).toBe('789012');
  expect(text(0, 5, 5)).toBe('');
});

test('assertRestored: finds a missing file, another size, and other bytes', () => {
  const [source, copy] = [newDirectory(), newDirectory()];
  writeFiles(source, { name: '3x5000B', fileCount: 3, fileBytes: 5000 }, randomBytes(16_384));
  const path = join(copy, 'part-00001.bin');
  const names = readdirSync(source);
  const restored = (compareBytes: boolean) => assertRestored(copy, source, { names, compareBytes });
  expect(() => restored(false)).toThrow(/0 files/);
  cpSync(source, copy, { recursive: true });
  restored(true);
  const bytes = readFileSync(path);
  bytes[4999] = (bytes[4999] ?? 0) ^ 1;
  writeFileSync(path, bytes);
  restored(false);
  expect(() => restored(true)).toThrow(/does not hold the bytes/);
  writeFileSync(path, bytes.subarray(1));
  expect(() => restored(false)).toThrow(/has 4999 bytes, not 5000/);
  expect(() => assertRestored(copy, source, { names: [fileName(0)], compareBytes: true })).toThrow(/3 files/);
});

test('assertRestored: a range that has another size or other bytes is found', () => {
  const [source, copy] = [newDirectory(), newDirectory()];
  writeFiles(source, { name: '1x5000B', fileCount: 1, fileBytes: 5000 }, randomBytes(16_384));
  const original = readFileSync(join(source, fileName(0)));
  const restored = (bytes: Buffer) => {
    writeFileSync(join(copy, fileName(0)), bytes);
    assertRestored(copy, source, { names: [fileName(0)], compareBytes: true, range: [1500, 2750] });
  };
  restored(original.subarray(1500, 2750));
  expect(() => restored(original.subarray(1500, 2749))).toThrow(/has 1249 bytes, not 1250/);
  expect(() => restored(original.subarray(1501, 2751))).toThrow(/does not hold the bytes/);
});
