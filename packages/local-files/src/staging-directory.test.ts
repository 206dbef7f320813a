import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RestoreTarget } from '@holdfast/core/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles, localFiles } from './index.ts';

const conflict = (message: string) =>
  expect.objectContaining({ code: 'Conflict', message: expect.stringContaining(message) });

let parent: string;
let directory: string;
let victim: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-staging-'));
  directory = join(parent, 'to/ckpt');
  victim = join(parent, 'victim');
  mkdirSync(victim);
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

async function write(target: RestoreTarget, name: string, value = name): Promise<void> {
  const bytes = new TextEncoder().encode(value);
  const sink = await target.open({ name, sizeBytes: bytes.byteLength });
  await sink.writeAt(0, bytes);
  await sink.close();
}

/** The hidden directory beside the target. */
function hidden(): string {
  const name = readdirSync(join(parent, 'to')).find(
    (found) => found.includes('.holdfast-') && !found.endsWith('.made-0'),
  );
  return join(parent, 'to', name ?? 'nothing');
}

async function written(fileSystem: FileSystem = nodeFileSystem): Promise<RestoreTarget> {
  const target = await createLocalFiles(fileSystem).openTarget(directory);
  for (const name of ['a', 'sub/b', 'sub/deep/c']) await write(target, name);
  await target.makeDirectory?.({ name: 'sub/empty' });
  return target;
}

type Interference = readonly [what: string, act: (staging: string) => void, found: string];

const INTERFERENCES: readonly Interference[] = [
  ['a file is removed', (at) => rmSync(`${at}/sub/b`), '/sub/b is gone'],
  ['a file is cut', (at) => truncateSync(`${at}/a`, 0), '/a is not the file that was written'],
  [
    'another file takes the place of one',
    (at) => {
      writeFileSync(`${at}/other`, 'x');
      // Clocks of file systems are coarse: one tick may cover the writes of both files.
      utimesSync(`${at}/other`, 1, 1);
      renameSync(`${at}/other`, `${at}/a`);
    },
    '/a is not the file that was written',
  ],
  [
    'a link to the very file takes its place',
    (at) => {
      renameSync(`${at}/a`, join(parent, 'moved'));
      symlinkSync(join(parent, 'moved'), `${at}/a`);
    },
    '/a is a symbolic link',
  ],
  ['an empty directory is removed', (at) => rmdirSync(`${at}/sub/empty`), '/sub/empty is gone'],
  [
    'a file takes the place of an empty directory',
    (at) => {
      rmdirSync(`${at}/sub/empty`);
      writeFileSync(`${at}/sub/empty`, 'x');
    },
    '/sub/empty is another file',
  ],
  ['a directory is moved away', (at) => renameSync(`${at}/sub`, `${at}/was`), '/sub is gone'],
  [
    'a link to the very directory takes its place',
    (at) => {
      renameSync(`${at}/sub`, `${at}/was`);
      symlinkSync('was', `${at}/sub`);
    },
    '/sub is a symbolic link',
  ],
  [
    'a link takes the place of the hidden directory',
    (at) => {
      renameSync(at, join(parent, 'moved'));
      symlinkSync(join(parent, 'moved'), at);
    },
    'is a symbolic link',
  ],
  [
    'another directory takes the place of the hidden one',
    (at) => {
      renameSync(at, join(parent, 'moved'));
      mkdirSync(at);
    },
    'is another directory',
  ],
  ['the hidden directory is removed', (at) => rmSync(at, { recursive: true }), 'is gone'],
];

describe('before a directory gets its name', () => {
  it.each(INTERFERENCES)(
    '%s: Conflict says what was found, and nothing gets the name',
    async (_, act, found) => {
      const target = await written();
      const staging = hidden();
      act(staging);
      await expect(target.publish()).rejects.toEqual(conflict(found));
      expect(existsSync(directory)).toBe(false);
      await target.discard();
    },
  );

  it('without /proc too', async () => {
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      readlink: () => Promise.reject(new Error('no /proc')),
    };
    await (await written(fileSystem)).publish();
    expect(readFileSync(join(directory, 'sub/deep/c'), 'utf8')).toBe('sub/deep/c');
    rmSync(directory, { recursive: true });
    const target = await written(fileSystem);
    rmSync(`${hidden()}/sub/b`);
    await expect(target.publish()).rejects.toEqual(conflict('/sub/b is gone'));
  });

  it('what takes its place in the moment after the rename is told', async () => {
    const rename: FileSystem['rename'] = async (from, to) => {
      await nodeFileSystem.rename(from, to);
      renameSync(to, join(parent, 'moved'));
      symlinkSync(victim, to);
    };
    const target = await written({ ...nodeFileSystem, rename });
    await expect(target.publish()).rejects.toEqual(conflict(`${directory} is a symbolic link`));
    await target.discard();
  });

  it('a file system that numbers its files anew, or sets their time late, is no interference', async () => {
    const anew = async (path: string) => {
      const stats = await nodeFileSystem.lstat(path);
      if (path.endsWith('/a')) stats.ino += 1n;
      if (path.endsWith('/b')) stats.mtimeNs += 1n;
      return stats;
    };
    await (await written({ ...nodeFileSystem, lstat: anew })).publish();
    expect(readdirSync(directory)).toEqual(['a', 'sub']);
  });
});

describe.runIf(process.platform === 'linux')('while a directory is written', () => {
  it('a link in the place of a directory leads no write elsewhere', async () => {
    const target = await written();
    const staging = hidden();
    renameSync(`${staging}/sub`, `${staging}/was`);
    symlinkSync(victim, `${staging}/sub`);
    await write(target, 'sub/later');
    await write(target, 'sub/new/later');
    expect(readdirSync(victim)).toEqual([]);
    await expect(target.publish()).rejects.toEqual(conflict('/sub is a symbolic link'));
    await target.discard();
    expect(existsSync(staging)).toBe(false);
  });

  it('nor when the directory had been closed meanwhile', async () => {
    const target = await written();
    const staging = hidden();
    for (let index = 0; index < 40; index++) await write(target, `other-${index}/a`);
    renameSync(`${staging}/sub`, `${staging}/was`);
    symlinkSync(victim, `${staging}/sub`);
    await expect(write(target, 'sub/later')).rejects.toEqual(conflict('/sub is a symbolic link'));
    expect(readdirSync(victim)).toEqual([]);
    await target.discard();
  });

  it('nor does a link in the place of the hidden directory, which then stays', async () => {
    const target = await written();
    const staging = hidden();
    renameSync(staging, join(parent, 'moved'));
    writeFileSync(join(victim, 'precious'), 'p');
    symlinkSync(victim, staging);
    await write(target, 'later');
    await target.discard();
    expect(readdirSync(victim)).toEqual(['precious']);
    expect(hidden()).toBe(staging);
  });

  it('a hidden directory that goes away as it is made is Conflict', async () => {
    const mkdir: FileSystem['mkdir'] = async (path) => {
      await nodeFileSystem.mkdir(path);
      if (path.includes('.holdfast-')) rmSync(path, { recursive: true });
    };
    const files = createLocalFiles({ ...nodeFileSystem, mkdir });
    await expect(files.openTarget(directory)).rejects.toEqual(conflict('is gone'));
  });

  it('a file put in the way is not taken for one of the checkpoint', async () => {
    const target = await written();
    writeFileSync(`${hidden()}/sub/later`, 'other');
    await expect(target.open({ name: 'sub/later', sizeBytes: 1 })).rejects.toEqual(
      conflict('/sub/later is another file'),
    );
    await target.discard();
  });
});

it('two files of one name at the same time are InvalidArgument, as they are one after the other', async () => {
  const target = await localFiles.openTarget(directory);
  await target.open({ name: 'a', sizeBytes: 1 });
  await expect(target.open({ name: 'a', sizeBytes: 1 })).rejects.toMatchObject({ code: 'InvalidArgument' });
  await target.discard();
});
