import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { scannedFileSystem } from './file-system.ts';

let directory: string;
let descriptor: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-fs-'));
  writeFileSync(join(directory, 'a'), Buffer.alloc(200_000, 'abc'));
  descriptor = openSync(join(directory, 'a'), 'r');
});
afterEach(() => {
  vi.restoreAllMocks();
  closeSync(descriptor);
  rmSync(directory, { recursive: true });
});

/**
 * True if the read made no trip through the thread pool: then its promise needs no turn of the
 * loop.
 */
async function isInPlace(read: Promise<number>): Promise<boolean> {
  let isDone = false;
  const done = read.then(() => {
    isDone = true;
  });
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  const wasInPlace = isDone;
  await done;
  return wasInPlace;
}

describe('files of a scan', () => {
  const position = (lengthBytes: number) => ({
    buffer: new Uint8Array(lengthBytes),
    start: 0,
    lengthBytes,
    offsetBytes: 0,
  });

  test('a small read is made in place, a large one is not', async () => {
    const { read } = scannedFileSystem();
    const small = position(1000);
    expect(await read(descriptor, small)).toBe(1000);
    expect(Buffer.from(small.buffer).toString().startsWith('abcabc')).toBe(true);
    const large = position(150_000);
    expect(await read(descriptor, large)).toBe(150_000);
    expect(Buffer.from(large.buffer).toString().startsWith('abcabc')).toBe(true);
    vi.spyOn(performance, 'now').mockReturnValue(0);
    expect(await isInPlace(read(descriptor, position(1000)))).toBe(true);
    expect(await isInPlace(read(descriptor, position(150_000)))).toBe(false);
  });

  test('after a slow one the next hundred are made elsewhere', async () => {
    const { read } = scannedFileSystem();
    let nowMs = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
      nowMs += 2;
      return nowMs;
    });
    await read(descriptor, position(10));
    clock.mockReturnValue(0);
    for (let round = 0; round < 100; round += 1)
      expect(await isInPlace(read(descriptor, position(10)))).toBe(false);
    expect(await isInPlace(read(descriptor, position(10)))).toBe(true);
  });
});
