/** What a note claims after a loss of power has destroyed part of it. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { nodeFileSystem } from './file-system.ts';
import { noteLine, readNote, writeNote } from './target-note.ts';

const BLOCK_BYTES = 512;
const LINES = Array.from({ length: 40 }, (_, index) =>
  noteLine(`layer-${index}/weights "ü"`, { size: BigInt(index), mtimeNs: 1_700_000_000_123_456_789n }),
);

let directory = '';
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'note-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it('whole it says all; cut anywhere, or with a block of zeros in it, nothing', async () => {
  const path = join(directory, 'note');
  await writeNote(nodeFileSystem, path, LINES);
  expect(await readNote(nodeFileSystem, path)).toEqual(LINES);
  const whole = readFileSync(path);
  const claimOf = async (bytes: Uint8Array) => {
    writeFileSync(path, bytes);
    return readNote(nodeFileSystem, path);
  };
  for (let length = 0; length < whole.length; length++)
    expect(await claimOf(whole.subarray(0, length)), `${length} bytes`).toEqual([]);
  for (let start = 0; start < whole.length; start += BLOCK_BYTES) {
    const holed = Buffer.from(whole);
    holed.subarray(start, start + BLOCK_BYTES).fill(0);
    expect(await claimOf(holed), `zeros from ${start} on`).toEqual([]);
  }
});
