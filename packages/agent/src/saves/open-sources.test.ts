import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, test } from 'vitest';
import { OpenedSources } from './open-sources.ts';

test('a file in a directory that took the name of the held one is not opened', async () => {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-sources-')));
  const stage = join(parent, 'stage');
  const path = join(stage, 'segment-1');
  mkdirSync(stage);
  writeFileSync(path, 'mine');
  const handle = await open(stage);
  const inStage = <Result>(work: (held: string) => Promise<Result>) => work(`/proc/self/fd/${handle.fd}`);
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
