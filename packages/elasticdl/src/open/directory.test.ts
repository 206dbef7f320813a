import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { directoryPlace, openDirectoryShards } from './directory.ts';
import { findVersions, openFound, openVersion } from './place.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-elasticdl-'));
});

afterEach(() => rm(root, { recursive: true }));

async function files(...names: string[]): Promise<void> {
  for (const name of names) {
    await mkdir(join(root, name, '..'), { recursive: true });
    await writeFile(join(root, name), name);
  }
}

test('a version directory of ElasticDL: every shard by index, its bytes, its path, and the version of its name', async () => {
  await files('version-100/variables-1-of-2.ckpt', 'version-100/variables-0-of-2.ckpt');
  const directory = join(root, 'version-100');
  await using set = await openDirectoryShards(`${directory}/`);
  expect([set.where, set.version]).toEqual([directory, 100n]);
  expect(set.shards.map(({ name, index, count, path }) => [name, index, count, path])).toEqual(
    [0, 1].map((index) => {
      const name = `variables-${index}-of-2.ckpt`;
      return [name, index, 2, join(directory, name)];
    }),
  );
  const buffer = new Uint8Array(set.shards[1]?.source.sizeBytes ?? 0);
  await set.shards[1]?.source.readInto(0, buffer);
  expect(Buffer.from(buffer).toString()).toBe('version-100/variables-1-of-2.ckpt');
});

test('a directory of another name has no version of its own', async () => {
  await files('model/variables-0-of-1.chkpt');
  await using set = await openDirectoryShards(join(root, 'model'));
  expect([set.version, set.shards.length]).toEqual([null, 1]);
});

test('A7: an incomplete version that is opened by name is Corrupt, and says what is there and what is missing', async () => {
  await files('version-5/variables-0-of-2.ckpt', 'version-5/variables-1-of-2.ckpt.tmp');
  await expect(openDirectoryShards(join(root, 'version-5'))).rejects.toMatchObject({
    code: 'Corrupt',
    message: `${join(root, 'version-5')} lacks shard 1 of 2; it has 0`,
  });
});

test('a directory that is not there, or holds no shard, is NotFound; one that holds versions says which', async () => {
  const refusal = (directory: string) =>
    openDirectoryShards(join(root, directory)).catch((error: unknown) => error);
  expect(await refusal('none')).toMatchObject({
    code: 'NotFound',
    message: expect.stringContaining('no such file'),
  });
  await files('other/readme.txt', 'jobs/version-5/variables-0-of-1.ckpt', 'jobs/version-10/x');
  expect(await refusal('other')).toMatchObject({
    code: 'NotFound',
    message: expect.stringContaining('holds no shard'),
  });
  expect(await refusal('jobs')).toMatchObject({
    code: 'NotFound',
    message: expect.stringContaining('open one of version-10, version-5'),
  });
});

test('A7: versions are found newest first by number, each with what it lacks; foreign entries are passed over', async () => {
  await files(
    'version-95/variables-0-of-1.ckpt',
    'version-100/variables-0-of-1.ckpt',
    'version_9/variables-0-of-2.chkpt',
    'version-x/variables-0-of-1.ckpt',
    'version-7', // a file, not a directory
    'variables-0-of-3.ckpt',
    'events.out',
    'version-100/version-3/variables-0-of-1.ckpt',
    'version-100/variables-5-of-9.ckpt/inside', // a directory, not a file
  );
  await mkdir(join(root, 'version-110'));
  const found = await findVersions(directoryPlace(root));
  expect(
    found.map(({ version, folder, shards, problem }) => [version, folder, shards.length, problem]),
  ).toEqual([
    [110n, 'version-110', 0, expect.stringContaining('holds no shard')],
    [100n, 'version-100', 1, null],
    [95n, 'version-95', 1, null],
    [9n, 'version_9', 1, 'lacks shard 1 of 2; it has 0'],
  ]);
});

test('two directories of one version: that which ElasticDL writes comes first; to open the version by number is refused', async () => {
  await files('version_7/variables-0-of-1.ckpt', 'version-007/variables-0-of-1.ckpt');
  await files('version-7/variables-0-of-1.ckpt');
  const place = directoryPlace(root);
  const found = await findVersions(place);
  expect(found.map(({ folder }) => folder)).toEqual(['version-7', 'version-007', 'version_7']);
  await expect(openVersion(place, 7n)).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining('version-7 and version-007'),
  });
  await using set = await openDirectoryShards(join(root, 'version_7'));
  expect(set.version).toBe(7n);
});

test('a version by its number; one that is not there is NotFound and names those that are', async () => {
  await files('version_9/variables-0-of-1.chkpt');
  const place = directoryPlace(root);
  await using set = await openVersion(place, 9n);
  expect([set.version, set.where]).toEqual([9n, join(root, 'version_9')]);
  expect(set.shards[0]?.path).toBe(join(root, 'version_9/variables-0-of-1.chkpt'));
  await expect(openVersion(place, 10n)).rejects.toMatchObject({
    code: 'NotFound',
    message: `${root} has no version 10; it has version_9`,
  });
  await rm(join(root, 'version_9'), { recursive: true });
  await expect(openVersion(place, 9n)).rejects.toThrow('it holds no version');
});

test('links count as what they lead to; a link to nothing does not count', async () => {
  await files('store/a', 'store/version-3/variables-0-of-1.ckpt', 'version-1/x', 'version-2/x');
  await symlink(join(root, 'store/a'), join(root, 'version-1/variables-0-of-1.ckpt'));
  await symlink(join(root, 'nothing'), join(root, 'version-2/variables-0-of-1.ckpt'));
  await symlink(join(root, 'store/version-3'), join(root, 'version-3'));
  const found = await findVersions(directoryPlace(root));
  expect(found.map(({ version, problem }) => [version, problem === null])).toEqual([
    [3n, true],
    [2n, false],
    [1n, true],
  ]);
});

test('no directory, or an empty one, has no versions', async () => {
  expect(await findVersions(directoryPlace(join(root, 'none')))).toEqual([]);
  expect(await findVersions(directoryPlace(root))).toEqual([]);
});

test('a version that is removed while the root is read does not count', async () => {
  await files('version-1/variables-0-of-1.ckpt', 'version-2/variables-0-of-1.ckpt');
  const removing = {
    ...nodeFileSystem,
    async readdir(path: string) {
      if (path.endsWith('version-1')) await rm(path, { recursive: true });
      return nodeFileSystem.readdir(path);
    },
  };
  const found = await findVersions(directoryPlace(root, removing));
  expect(found.map(({ version }) => version)).toEqual([2n]);
});

test('a directory that cannot be read is no empty one', async () => {
  await files('version-1/variables-0-of-1.ckpt');
  const denied = (last: string) => ({
    ...nodeFileSystem,
    async readdir(path: string) {
      if (path.endsWith(last))
        throw Object.assign(new Error('denied'), { code: 'EACCES', syscall: 'scandir' });
      return nodeFileSystem.readdir(path);
    },
  });
  for (const last of [root, 'version-1']) {
    await expect(findVersions(directoryPlace(root, denied(last)))).rejects.toMatchObject({
      code: 'Denied',
      message: expect.stringContaining(last),
    });
  }
});

test('a shard that is gone when its turn comes is NotFound, and those opened before are closed', async () => {
  await files('version-1/variables-0-of-2.ckpt', 'version-1/variables-1-of-2.ckpt');
  const place = directoryPlace(root);
  const [found] = await findVersions(place);
  if (!found) throw new Error('version 1 was not found');
  let openCount = 0;
  const counting = {
    ...place,
    async open(name: string) {
      const source = await place.open(name, undefined);
      openCount += 1;
      const closeFile = source.close.bind(source);
      return Object.assign(source, {
        async close() {
          openCount -= 1;
          await closeFile();
        },
      });
    },
  };
  const set = await openFound(counting, found);
  expect(openCount).toBe(2);
  await set.close();
  await set.close();
  expect(openCount).toBe(0);
  await rm(join(root, 'version-1/variables-1-of-2.ckpt'));
  await expect(openFound(counting, found)).rejects.toMatchObject({ code: 'NotFound' });
  expect(openCount).toBe(0);
});

test('a signal that has fired stops listing and opening with Aborted', async () => {
  await files('version-1/variables-0-of-1.ckpt');
  const signal = AbortSignal.abort();
  await expect(findVersions(directoryPlace(root), { signal })).rejects.toMatchObject({ code: 'Aborted' });
  await expect(openDirectoryShards(join(root, 'version-1'), { signal })).rejects.toMatchObject({
    code: 'Aborted',
  });
});
