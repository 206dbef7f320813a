/**
 * What saves and restores cost, in counts. Unlike times, these are the same on a busy machine, so a
 * change that adds a copy, a request or work for the main thread is found here.
 */

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type CallCounts,
  type Calls,
  LARGE_CALLS,
  type LargeCall,
  NODE_FLAGS,
  SMALL_CALLS,
  WHOLE_BYTES,
} from './calls.ts';

const PART_BYTES = 8 * 1024 * 1024;
const PARTS = 13;
const SIZE_BYTES = (PARTS - 1) * PART_BYTES + 1000;
const SMALL_FILES = 200;
const TIMEOUT_MS = 120_000;

async function run(store: string, workers: number): Promise<Calls> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-counts-'));
  try {
    const counters = join(import.meta.dirname, 'counters.ts');
    const flags = ['--conditions=holdfast-source', ...NODE_FLAGS, '--import', counters];
    const program = join(import.meta.dirname, 'transfer-program.ts');
    const numbers = [SIZE_BYTES, SMALL_FILES, workers].map(String);
    const args = [...flags, program, directory, store, ...numbers];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: TIMEOUT_MS });
    const { calls, isSame } = JSON.parse(stdout) as { calls: Calls; isSame: boolean };
    expect(isSame).toBe(true);
    return calls;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

type OfLarge = Readonly<Record<LargeCall, number>>;

function ofLarge(of: (call: LargeCall) => number): OfLarge {
  return Object.fromEntries(LARGE_CALLS.map((call) => [call, of(call)])) as OfLarge;
}

/** Times that each byte was counted, to a hundredth: records are far smaller. */
function perByte(calls: Calls, name: keyof CallCounts): OfLarge {
  return ofLarge((call) => Math.round((100 * calls[call][name]) / SIZE_BYTES) / 100);
}

const NONE = ofLarge(() => 0);

/** Requests of a save besides those of parts: to join, receipt, manifest and commit. */
const BESIDES_SAVE_MAX = 16;
const BESIDES_RESTORE_MAX = 5;

describe.each([
  ['S3', 's3', 0],
  ['S3 with two workers', 's3', 2],
  ['GCS', 'gcs', 0],
  ['Azure', 'azure', 0],
  ['a directory', 'local', 0],
])('%s', (_, store, workers) => {
  const isCloud = store !== 'local';
  let calls: Calls;
  beforeAll(async () => {
    calls = await run(store, workers);
  }, TIMEOUT_MS);

  test('the kernel moves each byte once in and once out; a file that is new is read twice', () => {
    const read = { saveFile: 2, restoreFile: 1, saveMemory: 0, restoreMemory: 1 };
    expect(perByte(calls, 'readBytes')).toEqual({ ...read, saveKnown: 2, saveUnchanged: 2 });
    const written = { saveFile: 1, restoreFile: 1, saveMemory: 1, restoreMemory: 0 };
    expect(perByte(calls, 'writtenBytes')).toEqual({ ...written, saveKnown: 1, saveUnchanged: 0 });
  });

  test('no byte is copied, but once from and to memory of the caller', () => {
    expect(perByte(calls, 'copiedBytes')).toEqual({ ...NONE, saveMemory: 1, restoreMemory: 1 });
  });

  test('no memory is allocated for a part', () => {
    expect(ofLarge((call) => calls[call].allocations)).toEqual(NONE);
    expect(calls.first.allocations).toBe(0);
  });

  test('objects of the language: 0.25 MiB for a part, 0.12 MiB for a small file', () => {
    const MIB = 1024 * 1024;
    for (const call of LARGE_CALLS) expect(calls[call].heapBytes / PARTS / MIB, call).toBeLessThan(0.25);
    for (const call of SMALL_CALLS)
      expect(calls[call].heapBytes / SMALL_FILES / MIB, call).toBeLessThan(0.12);
  });

  test('CRC32C is computed once for each time that a byte is read, by the workers if there are any', () => {
    const hashed = { saveFile: 2, restoreFile: 1, saveMemory: 1, restoreMemory: 1 };
    const known = { saveKnown: 2, saveUnchanged: 2 };
    expect(perByte(calls, 'hashedBytes')).toEqual(workers > 0 ? NONE : { ...hashed, ...known });
  });

  test('BLAKE3 is computed once for files that a checkpoint has, by the workers if there are any', () => {
    const hashed = { ...NONE, saveKnown: 1, saveUnchanged: 1 };
    expect(perByte(calls, 'blake3Bytes')).toEqual(workers > 0 ? NONE : hashed);
    expect(calls.saveUnchangedWhole.blake3Bytes).toBe(workers > 0 ? 0 : WHOLE_BYTES);
  });

  test('bytes are sent and received by the workers if there are any', () => {
    const carried = { ...ofLarge(() => 1), saveUnchanged: 0 };
    expect(perByte(calls, 'carriedBytes')).toEqual(isCloud && workers === 0 ? carried : NONE);
  });

  test('one message to a worker for each checksum, for each part of a hash and for each request', () => {
    const sent = isCloud ? 1 : 0;
    const checksums = {
      saveFile: 2,
      restoreFile: 1,
      saveMemory: 1,
      restoreMemory: 1,
      saveKnown: 2,
      saveUnchanged: 2,
    };
    const hashes: OfLarge = { ...NONE, saveKnown: 1, saveUnchanged: 1 };
    const requests: OfLarge = { ...ofLarge(() => sent), saveUnchanged: 0 };
    for (const call of LARGE_CALLS) {
      const ofPart = checksums[call] + hashes[call] + requests[call];
      // The last part is too small for a worker's checksum. A hash has its digest besides.
      expect(calls[call].messages, call).toBeLessThanOrEqual(workers > 0 ? ofPart * PARTS + hashes[call] : 0);
    }
    for (const call of SMALL_CALLS)
      expect(calls[call].messages, call).toBeLessThanOrEqual(workers > 0 ? sent * SMALL_FILES : 0);
  });

  if (!isCloud) return;

  test('one request for each part and each small file, and few besides', () => {
    const sent = { saveFile: PARTS, saveMemory: PARTS, saveKnown: PARTS, saveUnchanged: 0 };
    for (const call of ['saveFile', 'saveMemory', 'saveKnown', 'saveUnchanged'] as const)
      expect(calls[call].requests - sent[call], call).toBeLessThanOrEqual(BESIDES_SAVE_MAX);
    for (const call of ['restoreFile', 'restoreMemory'] as const)
      expect(calls[call].requests - PARTS, call).toBeLessThanOrEqual(BESIDES_RESTORE_MAX);
    expect(calls.saveSmall.requests - SMALL_FILES).toBeLessThanOrEqual(BESIDES_SAVE_MAX);
    expect(calls.restoreSmall.requests - SMALL_FILES).toBeLessThanOrEqual(BESIDES_RESTORE_MAX);
  });

  test('connections are kept', () => {
    const opened = (names: readonly (keyof Calls)[]) =>
      names.reduce((sum, call) => sum + calls[call].connections, 0);
    expect(opened(['first', ...LARGE_CALLS])).toBeLessThanOrEqual(16 * Math.max(1, workers));
    expect(opened(SMALL_CALLS)).toBeLessThanOrEqual(64);
  });
});
