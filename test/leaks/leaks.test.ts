/**
 * A call that is aborted or dropped leaves no timer, lease, descriptor or memory behind, and the
 * process ends.
 */

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';

const PROGRAM = new URL('dropped-calls.ts', import.meta.url).pathname;
/**
 * A forgotten stream holds parts of 64 KiB each in memory. The measurement error is far smaller.
 */
const BYTES_PER_CALL_MAX = 20_000;
const IN_MEMORY_COUNT = LONG_COUNT > 0 ? 1000 : 100;
const TIMEOUT_MS = 900_000;

interface Left {
  readonly name: string;
  readonly leases: number;
  readonly timers: number;
  /** On loan from the buffer pool. */
  readonly poolBytes: number;
  readonly files: number;
  readonly bytesPerCall: number;
}

/** Makes each call `count` times and returns what each has left. */
async function dropCalls(where: string, which: string, count: number, workers: number): Promise<Left[]> {
  const flags = ['--expose-gc', '--conditions=holdfast-source'];
  const args = [...flags, PROGRAM, where, which, `${count}`, `${workers}`];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: TIMEOUT_MS });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

test.concurrent.each([
  ['calls', 'memory', IN_MEMORY_COUNT, 0],
  ['objects', 'memory', IN_MEMORY_COUNT, 0],
  ['calls', 'disk', 12, 0],
  ['objects', 'disk', 12, 0],
  ['calls', 'disk', 12, 2],
  ['objects', 'disk', 12, 2],
])(
  '%s on a store in %s, %i times each, %i workers',
  { timeout: TIMEOUT_MS },
  async (which, medium, count, workers) => {
    const directory = medium === 'disk' ? mkdtempSync(join(tmpdir(), 'holdfast-leaks-')) : 'memory';
    const lines = await dropCalls(directory, which, count, workers).finally(() =>
      rmSync(directory, { recursive: true, force: true }),
    );
    expect(lines).toHaveLength(which === 'calls' ? 36 : 17);
    const filesMax = count / 4; // a store on disk keeps some files open that it has read
    // What is committed stays in the store, which is memory here.
    const isMeasured = (name: string) => medium === 'memory' && name !== 'commit stopped';
    const isLeft = ({ name, leases, timers, poolBytes, files, bytesPerCall }: Left) =>
      Math.max(leases, timers, poolBytes, files - filesMax) > 0 ||
      (isMeasured(name) && bytesPerCall > BYTES_PER_CALL_MAX);
    expect(lines.filter(isLeft)).toEqual([]);
  },
);
