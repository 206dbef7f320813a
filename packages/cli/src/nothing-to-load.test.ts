/**
 * A run that has checkpoints, none of which a restart can load: commands report that, and nothing
 * begins anew.
 */

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { CheckpointSummary } from '@holdfast/core/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cli } from './in-process.ts';
import { nothingToLoad } from './open-run.ts';

let directory: string;
let uri: string;

async function done(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  if (code !== 0) throw new Error(`${args.join(' ')}: ${stderr}`);
  return stdout;
}

async function damagePayload(version: number): Promise<void> {
  const run = join(directory, 'run');
  const names = await readdir(run, { recursive: true });
  const payload = join(
    run,
    names.find((name) => name.startsWith(`version_${version}/`) && name.endsWith('.bin')) ?? '',
  );
  const bytes = await readFile(payload);
  await writeFile(payload, bytes.fill(0));
}

/** Version 1 is retired, version 2 quarantined. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-unusable-'));
  uri = pathToFileURL(join(directory, 'run')).href;
  const source = join(directory, 'one.bin');
  for (const version of [1, 2]) {
    await writeFile(source, `of version ${version}`);
    await done('save', source, uri, '--version', `${version}`, '--attempt', 'a');
  }
  await done('gc', uri, '--keep', '1', '--grace', '1h', '--apply', '--force');
  await damagePayload(2);
  expect((await cli('verify', uri, '--quarantine')).code).toBe(5);
});
afterAll(() => rm(directory, { recursive: true }));

const SAYS = 'no existing checkpoint can be loaded: 1 version quarantined, 1 version retired';

test.each([
  ['latest', []],
  ['show', []],
  ['restore', ['DIR']],
  ['resume', ['DIR']],
  ['resume', ['DIR', '--or-start-fresh']],
  ['elasticdl inspect', []],
])('%s %s ends with 5, and says how many are there and what can be done', async (name, options) => {
  const given = options.map((each) => (each === 'DIR' ? join(directory, 'out') : each));
  const { code, stdout, stderr } = await cli(...name.split(' '), uri, ...given);
  expect([code, stdout]).toEqual([5, '']);
  expect(stderr).toContain(SAYS);
  expect(stderr).not.toMatch(/no checkpoint yet|nothing is committed|nothing was ever/);
  expect(stderr).toContain('not a first start');
  expect(stderr).toContain(`undelete ${uri} --version 1\` makes the newest retired version live again`);
  expect(stderr).toContain(`\`holdfast log ${uri}\``);
});

test('show of a version that is quarantined says so', async () => {
  const { code, stderr } = await cli('show', uri, '--version', '2');
  expect(code).toBe(5);
  expect(stderr).toContain('version 2 is quarantined: ');
  expect((await cli('show', uri, '--version', '3')).stderr).toContain(`no version 3 in ${uri}`);
});

test('what the advice says helps', async () => {
  await done('undelete', uri, '--version', '1');
  expect(await done('latest', uri)).toBe('1\n');
});

test('a checkpoint that the store shows only at the second look: the call is to be repeated', async () => {
  const latest = { isLatest: true, version: 3n } as CheckpointSummary;
  const error = await nothingToLoad({ list: async () => [latest] }, 'file:///run', {});
  expect([error.code, error.message]).toEqual([
    'Unavailable',
    'the store listed no checkpoint of file:///run at first, and then version 3',
  ]);
});
