/**
 * Reads all bombs, one after another, and prints a line of JSON for each. `bombs.test.ts` starts it
 * with a heap that is slightly larger than a record may take: a reader that needs more memory
 * crashes. With the argument `JSON.parse` it parses them as plain JSON instead. That shows that the
 * heap is small enough.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { decodeRecord, encodeRecord } from '@holdfast/core/internal/format/index';
import { allBombs, type Bomb } from './bombs.ts';

export interface Explosion {
  readonly kind: string;
  readonly name: string;
  readonly recordBytes: number;
  /** Why the record was rejected. `null`: it was read, and written again unchanged. */
  readonly problem: string | null;
  /** How far memory grew at most while it was read, inside and outside of the heap of V8. */
  readonly grownBytes: number;
}

/** `VmRSS`: memory in use. `VmHWM`: the most since `forgetPeak`. */
function memoryBytes(field: 'VmRSS' | 'VmHWM'): number {
  const [, kib] = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kib) * 1024;
}

const forgetPeak = () => writeFileSync('/proc/self/clear_refs', '5');

function readAndWrite({ kind }: Bomb, bytes: Uint8Array): Pick<Explosion, 'problem' | 'grownBytes'> {
  forgetPeak();
  const beforeBytes = memoryBytes('VmRSS');
  let grownBytes: number | undefined;
  const grown = () => (grownBytes ??= memoryBytes('VmHWM') - beforeBytes);
  try {
    const value = decodeRecord(kind, bytes, { key: 'bomb' });
    grown(); // without what writing takes
    const isSame = Buffer.compare(encodeRecord(kind, value).bytes, bytes) === 0;
    return { problem: isSame ? null : 'written otherwise than it was read', grownBytes: grown() };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return { problem: `${code}: ${message}`, grownBytes: grown() };
  }
}

for (const bomb of allBombs()) {
  const bytes = bomb.make();
  if (process.argv[2] === 'JSON.parse') JSON.parse(Buffer.from(bytes).toString());
  const { kind, name } = bomb;
  const explosion: Explosion = { kind, name, recordBytes: bytes.length, ...readAndWrite(bomb, bytes) };
  process.stdout.write(`${JSON.stringify(explosion)}\n`);
}
