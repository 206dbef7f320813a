import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Memory that a file may take, plus memory that Node and the sources take before. */
const HEAP_MIB = 64 + 10;
const TIMEOUT_MS = 300_000;

interface Read {
  readonly name: string;
  readonly sizeBytes: number;
  readonly problem: string | null;
}

test('hostile files of tensors are read or refused in 64 MiB, and each problem is told', {
  timeout: TIMEOUT_MS,
}, async () => {
  const limits = [`--max-old-space-size=${HEAP_MIB}`, '--max-semi-space-size=2'];
  const program = fileURLToPath(new URL('tensor-bombs.ts', import.meta.url));
  const child = spawn(process.execPath, [...limits, '--conditions=holdfast-source', program]);
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const read = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Read);
  expect(read.filter(({ problem }) => problem?.startsWith('thrown'))).toEqual([]);
  expect(read.length).toBeGreaterThan(90);
  expect(read.filter(({ sizeBytes }) => sizeBytes > 16_000_000).length).toBeGreaterThan(60);
  expect(read.filter(({ problem }) => problem === null)).not.toEqual([]);
});
