/** A shard with more variables than a function can take as arguments, through the command. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { holdfast } from '../e2e/holdfast-process.ts';

const COUNT = 130_000;
let directory: string;
let path: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-many-'));
  path = join(directory, 'variables-0-of-1.ckpt');
  const entries = Array.from({ length: COUNT }, (_, at) => entryOf(`v${at}`));
  await writeFile(path, Buffer.concat([Buffer.from([0x08, 7]), ...entries]));
});
afterAll(() => rm(directory, { recursive: true }));

/** An entry of S7's map of dense variables: one float32 with value zero. */
function entryOf(name: string): Buffer {
  const shape = [0x12, 4, 0x12, 2, 0x08, 1];
  const tensor = [0x08, 1, ...shape, 0x22, 4, 0, 0, 0, 0];
  const entry = [0x0a, name.length, ...Buffer.from(name), 0x12, tensor.length, ...tensor];
  return Buffer.from([0x1a, entry.length, ...entry]);
}

test('inspect prints them all', async () => {
  const text = await holdfast(['elasticdl', 'inspect', path]);
  expect([text.code, text.stderr]).toEqual([0, '']);
  const lines = text.stdout.trimEnd().split('\n');
  expect(lines).toContain('holds      130,000 variables');
  expect(lines.filter((line) => /^v\d+ +float32 {2,}\[1\] +4 B$/.test(line))).toHaveLength(COUNT);
});
