/** On the file system itself: each test waits so that its times differ. */

import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { findRemoval } from './removal.ts';

const LONG_AGO = new Date('2020-01-01');

/** A checkpoint with a directory, one of whose files has another name elsewhere. */
async function checkpoint() {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-removal-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const [path, elsewhere] = [join(directory, 'step-1'), join(directory, 'elsewhere')];
  for (const place of [path, join(path, 'part'), elsewhere]) mkdirSync(place);
  writeFileSync(join(path, 'part', 'a'), 'a');
  for (const name of ['model', 'other']) writeFileSync(join(path, name), name);
  writeFileSync(join(elsewhere, 'new'), 'new');
  linkSync(join(path, 'model'), join(elsewhere, 'model'));
  await wait();
  const found = (isRenamed = false) => findRemoval({ path }, { isRenamed });
  return { path, elsewhere, found };
}

function wait(): Promise<void> {
  return sleep(100);
}

describe('a change that is no addition', () => {
  const CHANGES: [string, (path: string, elsewhere: string) => void][] = [
    ['loses its name in another directory', (_, elsewhere) => rmSync(join(elsewhere, 'model'))],
    [
      'gets a name in another directory',
      (path, elsewhere) => linkSync(join(path, 'model'), join(elsewhere, 'b')),
    ],
    ['gets another mode', (path) => chmodSync(join(path, 'model'), 0o600)],
    ['is read', (path) => utimesSync(join(path, 'model'), new Date(), statSync(join(path, 'model')).mtime)],
    ['is a directory and gets another mode', (path) => chmodSync(join(path, 'part'), 0o700)],
  ];

  test.each(CHANGES)('an entry %s: the remains of a removal stay remains', async (_, change) => {
    const { path, elsewhere, found } = await checkpoint();
    rmSync(join(path, 'other'));
    await wait();
    expect(await found()).toBe(path);
    change(path, elsewhere);
    expect(await found()).toBe(path);
    expect(await found(true)).toBe(path);
  });

  test.each(CHANGES)('an entry %s: a whole checkpoint stays whole', async (_, change) => {
    const { path, elsewhere, found } = await checkpoint();
    expect(await found()).toBeNull();
    change(path, elsewhere);
    expect(await found()).toBeNull();
  });
});

test.each<[string, (path: string, file: string) => void]>([
  [
    'copied with its old time',
    (path, file) => {
      copyFileSync(file, join(path, 'new'));
      utimesSync(join(path, 'new'), LONG_AGO, LONG_AGO);
    },
  ],
  ['renamed into the directory', (path, file) => renameSync(file, join(path, 'new'))],
  ['linked into the directory', (path, file) => linkSync(file, join(path, 'new'))],
  ['written to', (path) => appendFileSync(join(path, 'model'), 'more')],
])('a removal does not count once a file was %s', async (_, change) => {
  const { path, elsewhere, found } = await checkpoint();
  rmSync(join(path, 'other'));
  await wait();
  expect(await found()).toBe(path);
  change(path, join(elsewhere, 'new'));
  await wait();
  expect(await found()).toBeNull();
});

test('a copy of a whole checkpoint with all its old times is whole', async () => {
  const { path, found } = await checkpoint();
  for (const place of ['part/a', 'part', 'model', 'other', ''])
    utimesSync(join(path, place), LONG_AGO, LONG_AGO);
  expect(await found()).toBeNull();
});
