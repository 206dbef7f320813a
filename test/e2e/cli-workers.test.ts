/** The packed command with transfer workers, and without the files that they need. */

import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { holdfast } from './holdfast-process.ts';
import { PACKED_DIRECTORY } from './packed-command.ts';

const DATA = Buffer.alloc(20_000_003, 'every byte counts');

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-workers-'));
  await mkdir(join(directory, 'model'));
  await writeFile(join(directory, 'model', 'weights'), DATA);
});
afterEach(() => rm(directory, { recursive: true }));

/** A copy of the command that lacks one piece. Natives are found beside the clone's. */
async function commandWithout(piece: string): Promise<string[]> {
  const copy = join(directory, 'command');
  await cp(PACKED_DIRECTORY, copy, { recursive: true });
  await symlink(join(PACKED_DIRECTORY, '..', 'node_modules'), join(directory, 'node_modules'));
  await rm(join(copy, 'pieces', `${piece}.mjs`));
  return [process.execPath, join(copy, 'holdfast.mjs')];
}

async function saveAndRestore(
  program?: readonly string[],
  place?: Pick<TestBucket, 'uri' | 'env'>,
): Promise<string> {
  const run = place?.uri ?? pathToFileURL(join(directory, 'run')).href;
  const options = { ...(program && { program }), ...(place && { env: place.env }) };
  const saved = await holdfast(
    ['save', join(directory, 'model'), run, '--workers', '2', '--verbose'],
    options,
  );
  expect({ code: saved.code, stderr: saved.code === 0 ? '' : saved.stderr }).toEqual({ code: 0, stderr: '' });
  const back = join(directory, 'back');
  const restored = await holdfast(['restore', run, back, '--workers', '2', '--verbose'], options);
  expect({ code: restored.code, stderr: restored.code === 0 ? '' : restored.stderr }).toEqual({
    code: 0,
    stderr: '',
  });
  expect((await readFile(join(back, 'weights'))).equals(DATA)).toBe(true);
  return saved.stderr + restored.stderr;
}

const NO_THREADS = 'one thread does all the work, because no other can be started';

test('save and restore with two workers', async () => {
  expect(await saveAndRestore()).not.toContain(NO_THREADS);
});

test('without the program of a worker, one thread does all the work, and says so', async () => {
  expect(await saveAndRestore(await commandWithout('transfer-worker'))).toContain(NO_THREADS);
});

test('without the module that hashes, the main thread hashes', async () => {
  await saveAndRestore(await commandWithout('checksum-service'));
});

test.each(['-1', '65', 'two'])('--workers %s is refused, with what is accepted', async (count) => {
  const { code, stderr } = await holdfast(['save', directory, 'file:///nowhere/run', '--workers', count]);
  expect([code, stderr]).toEqual([2, expect.stringContaining('--workers')]);
});

describeOnMinio('without the module that sends', {}, (server) => {
  test('the main thread sends and receives', async () => {
    const { uri, env } = await server().newBucket();
    await saveAndRestore(await commandWithout('http-service'), { uri, env });
  });
});
