/** A discarding server for the tests of a dialect, and the bytes of its objects. */

import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MIB, patternPieces } from '../s3/shapes.ts';
import { type DialectName, type DiscardServer, startDiscardServer } from './process.ts';

const PATTERN = randomBytes(4 * MIB);

/** Bytes of an object that begins `rotationBytes` into the pattern. */
export function contents(range: { rotationBytes: number; startBytes: number; endBytes: number }): Buffer {
  return Buffer.concat([...patternPieces(PATTERN, range)]);
}

export async function startForTest(dialect: DialectName): Promise<DiscardServer> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-discard-'));
  try {
    const patternPath = join(directory, 'pattern');
    writeFileSync(patternPath, PATTERN);
    return await startDiscardServer(dialect, patternPath);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
