import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { nodeFileSystem } from '@holdfast/local-files';
import { expect, test } from 'vitest';
import type { WorkInside } from '../staging/held-directory.ts';
import { OpenedSources } from './open-sources.ts';

test('a file in a directory that took the name of the held one is not opened', async () => {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-sources-')));
  const stage = join(parent, 'stage');
  const path = join(stage, 'segment-1');
  mkdirSync(stage);
  writeFileSync(path, 'mine');
  const handle = await open(stage);
  const inStage = <Result>(work: WorkInside<Result>) => work(`/proc/self/fd/${handle.fd}`, nodeFileSystem);
  const sources = () =>
    new OpenedSources({ stage, inStage, roots: [], owners: [process.getuid?.() ?? 0], life: '' });
  const files = [{ name: 'a', source: { path } }];
  try {
    const before = sources();
    await before.add(files);
    expect(before.sizeBytes).toBe(4);
    await before.close();
    renameSync(stage, join(parent, 'moved'));
    mkdirSync(stage);
    writeFileSync(path, 'of another user');
    await expect(sources().add(files)).rejects.toMatchObject({ code: 'Denied', message: /leads elsewhere/ });
  } finally {
    await handle.close();
    rmSync(parent, { recursive: true, force: true });
  }
});

test.each([
  ['replaced', (at: string) => renameSync(join(at, 'ckpt'), join(at, 'old'))],
  ['replaced behind a link', (at: string) => rmSync(join(at, 'latest'))],
])('a directory that is %s between two of its files is refused', async (_, giveUp) => {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-sources-')));
  const sources = new OpenedSources({
    ...{ stage: join(parent, 'stage'), roots: [parent], owners: [process.getuid?.() ?? 0], life: '' },
    inStage: (work) => work(parent, nodeFileSystem),
  });
  for (const [state, text] of [
    ['ckpt', 'old'],
    ['next', 'new'],
  ] as const) {
    mkdirSync(join(parent, state));
    for (const name of ['a', 'b']) writeFileSync(join(parent, state, name), text);
  }
  const isLink = _ !== 'replaced';
  const directory = join(parent, isLink ? 'latest' : 'ckpt');
  if (isLink) symlinkSync('ckpt', directory);
  let isReplaced = false;
  const replace = () => {
    if (isReplaced) return;
    isReplaced = true;
    giveUp(parent);
    if (isLink) symlinkSync('next', directory);
    else renameSync(join(parent, 'next'), directory);
  };
  const second = {
    // The agent reads the path when it opens the file.
    get path() {
      replace();
      return join(directory, 'b');
    },
  };
  try {
    await expect(
      sources.add([
        { name: 'a', source: { path: join(directory, 'a') } },
        { name: 'b', source: second },
      ]),
    ).rejects.toMatchObject({ code: 'SourceChanged', message: /ckpt\/a|latest\/a/ });
    expect(isReplaced).toBe(true);
  } finally {
    await sources.close();
    rmSync(parent, { recursive: true, force: true });
  }
});
