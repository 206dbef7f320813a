/** Writes zip archives whose bytes depend only on their files. */

import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';

const LOCAL_HEADER = 0x04034b50;
const CENTRAL_HEADER = 0x02014b50;
const CENTRAL_HEADER_BYTES = 46;
const END = 0x06054b50;
/** Version 2.0 of the format: deflated files in directories. */
const VERSION = 20;
/** The upper byte says that modes of files are those of Unix. */
const MADE_BY = (3 << 8) | VERSION;
const DEFLATED = 8;
const REGULAR_FILE = 0o100000;
/** The fixed time of `writeArchive`: 1985-10-26 08:15:00, as DOS encodes it. */
const DATE = ((1985 - 1980) << 9) | (10 << 5) | 26;
const TIME = (8 << 11) | (15 << 5);

interface Entry {
  readonly name: Buffer;
  readonly mode: number;
  readonly crc: number;
  readonly sizeBytes: number;
  readonly deflated: Buffer;
  readonly offset: number;
}

/** Packs these files of the directory, in this order. Programs stay programs. */
export function writeZip(directory: string, names: readonly string[], file: string): void {
  const parts: Buffer[] = [];
  const entries: Entry[] = [];
  let offset = 0;
  for (const name of names) {
    const entry = entryOf(directory, name, offset);
    entries.push(entry);
    const local = [localHeader(entry), entry.name, entry.deflated];
    parts.push(...local);
    for (const part of local) offset += part.length;
  }
  const directoryParts = entries.flatMap((entry) => [centralHeader(entry), entry.name]);
  writeFileSync(file, Buffer.concat([...parts, ...directoryParts, endOf(entries, offset)]));
}

function entryOf(directory: string, name: string, offset: number): Entry {
  if (!/^[\x21-\x7e]+$/.test(name)) throw new Error(`${name}: only ASCII names are packed`);
  const path = join(directory, name);
  const bytes = readFileSync(path);
  const mode = (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755;
  const deflated = deflateRawSync(bytes, { level: 9 });
  return { name: Buffer.from(name), mode, crc: crc32(bytes), sizeBytes: bytes.length, deflated, offset };
}

/** The fields that both headers have, in their order. */
function commonFields({ crc, deflated, sizeBytes, name }: Entry): Buffer {
  const bytes = Buffer.alloc(26);
  bytes.writeUInt16LE(VERSION, 0);
  bytes.writeUInt16LE(DEFLATED, 4);
  bytes.writeUInt16LE(TIME, 6);
  bytes.writeUInt16LE(DATE, 8);
  bytes.writeUInt32LE(crc, 10);
  bytes.writeUInt32LE(deflated.length, 14);
  bytes.writeUInt32LE(sizeBytes, 18);
  bytes.writeUInt16LE(name.length, 22);
  return bytes;
}

function localHeader(entry: Entry): Buffer {
  const signature = Buffer.alloc(4);
  signature.writeUInt32LE(LOCAL_HEADER);
  return Buffer.concat([signature, commonFields(entry)]);
}

function centralHeader(entry: Entry): Buffer {
  const start = Buffer.alloc(6);
  start.writeUInt32LE(CENTRAL_HEADER, 0);
  start.writeUInt16LE(MADE_BY, 4);
  // Comment, disk and internal attributes are empty.
  const rest = Buffer.alloc(14);
  rest.writeUInt32LE(((REGULAR_FILE | entry.mode) << 16) >>> 0, 6);
  rest.writeUInt32LE(entry.offset, 10);
  return Buffer.concat([start, commonFields(entry), rest]);
}

function endOf(entries: readonly Entry[], offset: number): Buffer {
  const end = Buffer.alloc(22);
  end.writeUInt32LE(END, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  let sizeBytes = 0;
  for (const { name } of entries) sizeBytes += CENTRAL_HEADER_BYTES + name.length;
  end.writeUInt32LE(sizeBytes, 12);
  end.writeUInt32LE(offset, 16);
  return end;
}
