/** `elasticdl best`: output and exit status. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';

let directory: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-best-'));
});
afterAll(() => rm(directory, { recursive: true }));

const newUri = () => `memory://best-${count++}`;

/** Expects this exit status, these words in the error, and no result. */
async function refused(code: number, words: string, ...args: string[]) {
  const ended = await cli(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}

describe('best', () => {
  /** A run in which each version was saved with these metrics. */
  async function savedRun(...metrics: string[][]): Promise<string> {
    const uri = newUri();
    const path = join(directory, 'one.bin');
    for (const [version, given] of metrics.entries()) {
      await writeFile(path, `of version ${version}`);
      const words = given.flatMap((metric) => ['--metric', metric]);
      const saved = await cli('save', path, uri, '--version', String(version), ...words);
      if (saved.code !== 0) throw new Error(saved.stderr);
    }
    return uri;
  }
  const best = ['elasticdl', 'best'] as const;

  test('the highest unless the lowest is requested, then the second and third; the newer of equals', async () => {
    const uri = await savedRun(['auc=0.5'], ['auc=0.75', 'loss=2'], [], ['auc=0.75'], ['auc=0.25']);
    const { code, stdout, stderr } = await cli(...best, uri, '--metric', 'auc');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.split('\n').map((line) => line.replace(/ +(just now|\d+ s ago)$/, ''))).toEqual([
      'best   version 3   auc 0.75',
      'then   version 1   auc 0.75',
      'then   version 0   auc 0.5',
      '',
    ]);
    expect((await cli(...best, uri, '--metric', 'auc:min')).stdout).toMatch(
      /^best {2,}version 4 {2,}auc 0\.25/,
    );
    expect(await asJson(...best, uri, '--metric', 'loss:min')).toMatchObject({
      uri,
      metric: 'loss',
      mode: 'min',
      value: 2,
      version: 1,
      state: 'live',
      others: [],
    });
    expect((await asJson(...best, uri, '--metric', 'auc')).others).toEqual([
      { version: 1, value: 0.75 },
      { version: 0, value: 0.5 },
    ]);
  });

  test('what a rollback left behind does not count', async () => {
    const uri = await savedRun(['auc=0.5'], ['auc=0.75']);
    await cli('rollback', uri, '--to', '0', '--reason', 'test');
    expect((await asJson(...best, uri, '--metric', 'auc')).version).toBe(0);
  });

  test('no metric given, none of that name, none at all, no run: each says so', async () => {
    const uri = await savedRun(['auc=0.5', 'loss=2']);
    await refused(2, 'elasticdl best needs --metric', ...best, uri);
    await refused(
      2,
      'no checkpoint has the metric "acu"; there are: auc, loss',
      ...best,
      uri,
      '--metric',
      'acu',
    );
    await refused(2, 'there are no metrics', ...best, await savedRun([]), '--metric', 'auc');
    await refused(2, '--metric: "" is not a metric', ...best, uri, '--metric', '');
    await refused(6, 'no run at memory://', ...best, newUri(), '--metric', 'auc');
  });
});
