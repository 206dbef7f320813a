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
import type { CallCounts, Calls } from './transfer-program.ts';

const PART_BYTES = 8 * 1024 * 1024;
const PARTS = 13;
const SIZE_BYTES = (PARTS - 1) * PART_BYTES + 1000;
const TIMEOUT_MS = 120_000;

async function run(store: string, workers: number): Promise<Calls> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-counts-'));
  try {
    const flags = ['--conditions=holdfast-source', '--import', join(import.meta.dirname, 'counters.ts')];
    const program = join(import.meta.dirname, 'transfer-program.ts');
    const args = [...flags, program, directory, store, `${SIZE_BYTES}`, `${workers}`];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: TIMEOUT_MS });
    const { calls, isSame } = JSON.parse(stdout) as { calls: Calls; isSame: boolean };
    expect(isSame).toBe(true);
    return calls;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Times that each byte of the file was counted, to a hundredth: records are far smaller. */
function perByte(calls: Calls, name: keyof CallCounts): Record<string, number> {
  const rounded = (count: number) => Math.round((100 * count) / SIZE_BYTES) / 100;
  const { first: _, ...others } = calls;
  return Object.fromEntries(Object.entries(others).map(([call, counts]) => [call, rounded(counts[name])]));
}

const NONE = { saveFile: 0, restoreFile: 0, saveMemory: 0, restoreMemory: 0 };

let alone: Calls;
beforeAll(async () => {
  alone = await run('s3', 0);
}, TIMEOUT_MS);

describe.each([
  ['S3', 's3', 0],
  ['S3 with two workers', 's3', 2],
  ['a directory', 'local', 0],
])('%s', (_, store, workers) => {
  let calls: Calls;
  beforeAll(async () => {
    calls = store === 's3' && workers === 0 ? alone : await run(store, workers);
  }, TIMEOUT_MS);

  test('the kernel moves each byte once in and once out; a file that is new is read twice', () => {
    const read = { saveFile: 2, restoreFile: 1, saveMemory: 0, restoreMemory: 1 };
    expect(perByte(calls, 'readBytes')).toEqual(read);
    const written = { saveFile: 1, restoreFile: 1, saveMemory: 1, restoreMemory: 0 };
    expect(perByte(calls, 'writtenBytes')).toEqual(written);
  });

  test('no byte is copied, but once from and to memory of the caller', () => {
    expect(perByte(calls, 'copiedBytes')).toEqual({ ...NONE, saveMemory: 1, restoreMemory: 1 });
  });

  test('no memory is allocated for a part', () => {
    expect(Object.values(calls).map(({ allocations }) => allocations)).toEqual([0, 0, 0, 0, 0]);
  });

  test('CRC32C is computed once for each time that a byte is read, by the workers if there are any', () => {
    const hashed = { saveFile: 2, restoreFile: 1, saveMemory: 1, restoreMemory: 1 };
    expect(perByte(calls, 'hashedBytes')).toEqual(workers > 0 ? NONE : hashed);
  });

  test('bytes are sent and received by the workers if there are any', () => {
    const carried = { saveFile: 1, restoreFile: 1, saveMemory: 1, restoreMemory: 1 };
    expect(perByte(calls, 'carriedBytes')).toEqual(store === 's3' && workers === 0 ? carried : NONE);
  });

  if (store === 's3') {
    test('one request for each part, and few besides', () => {
      const besides = (counts: CallCounts) => counts.requests - PARTS;
      for (const save of [calls.saveFile, calls.saveMemory]) expect(besides(save)).toBeLessThanOrEqual(15);
      for (const restore of [calls.restoreFile, calls.restoreMemory])
        expect(besides(restore)).toBeLessThanOrEqual(5);
    });

    test('connections are kept', () => {
      const opened = Object.values(calls).reduce((sum, { connections }) => sum + connections, 0);
      expect(opened).toBeLessThanOrEqual(16 * Math.max(1, workers));
    });
  }

  if (workers > 0) {
    test('the main thread has a far smaller share of the CPU time than alone', () => {
      const shareOf = ({ mainCpuMs, cpuMs }: CallCounts) => mainCpuMs / cpuMs;
      for (const call of ['saveFile', 'restoreFile'] as const)
        expect(shareOf(calls[call]) / shareOf(alone[call]), call).toBeLessThan(0.6);
    });
  }
});
