import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let root: string;
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'holdfast-beside-')));
  await mkdir(join(root, 'model/sub'), { recursive: true });
  await writeFile(join(root, 'model/sub/a.bin'), 'a');
  await symlink(join(root, 'model'), join(root, 'link'));
});
afterEach(() => rm(root, { recursive: true }));

async function save(directory: string, run: string): Promise<unknown> {
  await using manager = await openCheckpointManager(pathToFileURL(join(root, run)).href);
  return await manager.save({ dir: join(root, directory) });
}

describe('a run in the directory that is saved', () => {
  it.each([
    ['model', 'model/run', 'holds the run'],
    ['model', 'model', 'holds the run'],
    ['link', 'model/deep/run', 'holds the run'],
    ['model', 'link/run', 'holds the run'],
    ['model/sub', 'model', 'lies in the run'],
  ])('saving %s to %s is refused, the first time as well', async (directory, run, what) => {
    await expect(save(directory, run)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining(`${join(root, directory)} ${what}`),
    });
  });

  it.each([
    ['outside', '', 'holds the run'],
    ['outside/run', 'catalog', 'lies in the run'],
    ['outside/run', '', 'holds the run'],
  ])('a link that leads to it is refused, if links are followed: to %s/%s', async (to, below, what) => {
    await save('model', 'outside/run');
    await symlink(join(root, to, below), join(root, 'model/sub/run'));
    await using manager = await openCheckpointManager(pathToFileURL(join(root, 'outside/run')).href);
    const again = manager.save({ dir: join(root, 'model'), links: 'follow' });
    await expect(again).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining(`${join(root, to, below).replace(/\/$/, '')} ${what}`),
    });
  });

  it.each([
    ['model', 'model-run'],
    ['model/sub', 'model/run'],
  ])('saving %s to %s is not', async (directory, run) => {
    await expect(save(directory, run)).resolves.toMatchObject({ isCommitted: true });
  });
});
