/** `list --limit`: output for a run that is only partly listed. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cli } from '../in-process.ts';

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-list-'));
});
afterAll(() => rm(directory, { recursive: true }));

test('the best by a metric is marked only where all versions are listed', async () => {
  const uri = 'memory://list-limited';
  const path = join(directory, 'one.bin');
  for (const [version, acc] of [0.9, 0.5, 0.7].entries()) {
    await writeFile(path, `of version ${version}`);
    const saved = await cli('save', path, uri, '--version', `${version}`, '--metric', `acc=${acc}`);
    expect(saved.code).toBe(0);
  }
  const versionsAndMarks = async (...options: string[]) => {
    const { stdout } = await cli('list', uri, ...options);
    return [...stdout.matchAll(/^ +(\d+) .* acc 0\.\d+ *(.*)$/gm)].map(([, version, mark]) => [
      version,
      mark,
    ]);
  };
  const all = [
    ['2', 'latest'],
    ['1', ''],
    ['0', 'best acc'],
  ];
  expect(await versionsAndMarks()).toEqual(all);
  expect(await versionsAndMarks('--limit', '3')).toEqual(all);
  expect(await versionsAndMarks('--limit', '2')).toEqual(all.slice(0, 2));
});
