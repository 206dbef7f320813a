import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { RestoreTarget } from '@holdfast/core/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles, localFiles } from './index.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const text = (value: string) => new TextEncoder().encode(value);

let parent: string;
let directory: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-target-'));
  directory = join(parent, 'ckpt');
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

async function write(target: RestoreTarget, name: string, value: string, mode?: number): Promise<void> {
  const bytes = text(value);
  const sink = await target.open({ name, sizeBytes: bytes.byteLength, mode });
  await sink.writeAt(0, bytes);
  await sink.close();
}

/** Names beside the directory, except its note. */
const siblings = () => readdirSync(parent).filter((name) => !name.endsWith('.made-0'));
const read = (name: string) => readFileSync(join(directory, name), 'utf8');

describe('openTarget', () => {
  it('the directory appears with publish, whole', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await write(target, 'deep/er/b', 'two', 0o751);
    await write(target, 'empty', '');
    expect(existsSync(directory)).toBe(false);
    await target.publish();
    expect([read('a'), read('deep/er/b'), read('empty')]).toEqual(['one', 'two', '']);
    expect(statSync(join(directory, 'deep/er/b')).mode & 0o777).toBe(0o751);
    expect(siblings()).toEqual(['ckpt']);
  });

  it('empty directories appear with it; one that is there already, or holds a file, is no other', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'deep/er/b', 'two');
    for (const name of ['logs', 'deep/er', 'deep/empty/x', 'logs']) await target.makeDirectory?.({ name });
    await target.publish();
    expect(readdirSync(directory, { recursive: true }).sort()).toEqual([
      ...['deep', 'deep/empty', 'deep/empty/x', 'deep/er', 'deep/er/b', 'logs'],
    ]);
    await expect(target.makeDirectory?.({ name: 'late' })).rejects.toEqual(code('InvalidArgument'));
  });

  it.each(['../x', '/x', 'a/../../x', '', 'a\0b'])('no directory is made outside, as %j', async (name) => {
    const target = await localFiles.openTarget(directory);
    await expect(target.makeDirectory?.({ name })).rejects.toEqual(code('InvalidArgument'));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });

  it('a directory that has the name of a file, or would lie in one, is InvalidArgument', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    for (const name of ['a', 'a/b'])
      await expect(target.makeDirectory?.({ name })).rejects.toEqual(
        code('InvalidArgument', 'both have the same name there, or one would lie inside the other'),
      );
    await target.discard();
  });

  it('only its owner can enter it before, and then it has the mode of any new directory', async () => {
    const target = await localFiles.openTarget(directory);
    const [sibling] = readdirSync(parent);
    expect(sibling).toMatch(/^\.ckpt\.holdfast-[0-9a-f]{16}(\.[0-9a-f-]+)?$/);
    expect(statSync(join(parent, sibling!)).mode & 0o777).toBe(0o700);
    await write(target, 'a', 'one');
    await target.publish();
    mkdirSync(join(parent, 'other'));
    expect(statSync(directory).mode).toBe(statSync(join(parent, 'other')).mode);
  });

  it('parts of a file may be written in any order and at the same time', async () => {
    const target = await localFiles.openTarget(directory);
    const sink = await target.open({ name: 'a', sizeBytes: 9 });
    await Promise.all([
      sink.writeAt(6, text('ghi')),
      sink.writeAt(0, text('abc')),
      sink.writeAt(3, text('def')),
    ]);
    await sink.close();
    await target.publish();
    expect(read('a')).toBe('abcdefghi');
  });

  it('discard leaves nothing behind, closes what is open, and may be repeated', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'a/b', 'one');
    const sink = await target.open({ name: 'c', sizeBytes: 3 });
    await target.discard();
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
    await expect(sink.writeAt(0, text('abc'))).rejects.toEqual(code('Aborted'));
    await expect(target.open({ name: 'd', sizeBytes: 1 })).rejects.toEqual(
      code('InvalidArgument', 'already published or discarded'),
    );
    await expect(target.publish()).rejects.toEqual(code('InvalidArgument', 'already published or discarded'));
  });

  it('discard after publish takes nothing away', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await target.publish();
    await target.discard();
    expect(read('a')).toBe('one');
  });

  it('discard never throws', async () => {
    const files = createLocalFiles({ ...nodeFileSystem, removeAll: () => Promise.reject(errnoError('EIO')) });
    await (await files.openTarget(directory)).discard();
  });

  it('missing parent directories are created', async () => {
    directory = join(parent, 'x/y/ckpt');
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await target.publish();
    expect(read('a')).toBe('one');
  });

  it('an empty directory is taken over, with its mode', async () => {
    mkdirSync(directory);
    chmodSync(directory, 0o750);
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await target.publish();
    expect(read('a')).toBe('one');
    expect(statSync(directory).mode & 0o777).toBe(0o750);
  });

  it('a directory that is not empty is TargetExists, and stays as it was', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'old'), 'old');
    await expect(localFiles.openTarget(directory)).rejects.toEqual(code('TargetExists', 'not empty'));
    expect([siblings(), read('old')]).toEqual([['ckpt'], 'old']);
  });

  it('replace puts the new directory in the place of the old one', async () => {
    mkdirSync(join(directory, 'sub'), { recursive: true });
    writeFileSync(join(directory, 'sub/old'), 'old');
    const target = await localFiles.openTarget(directory, { replace: 'everything' });
    await write(target, 'a', 'one');
    expect(read('sub/old')).toBe('old');
    await target.publish();
    expect([siblings(), readdirSync(directory)]).toEqual([['ckpt'], ['a']]);
  });

  it('replace works where there is nothing to replace', async () => {
    const target = await localFiles.openTarget(directory, { replace: 'everything' });
    await write(target, 'a', 'one');
    await target.publish();
    expect(siblings()).toEqual(['ckpt']);
  });

  it.each([false, true])('a file is TargetExists (replace: %s)', async (replace) => {
    writeFileSync(directory, 'file');
    await expect(localFiles.openTarget(directory, { replace })).rejects.toEqual(
      code('TargetExists', 'not a directory'),
    );
    expect(readFileSync(directory, 'utf8')).toBe('file');
  });

  it('a symbolic link to a directory stands for it', async () => {
    mkdirSync(join(parent, 'real'));
    symlinkSync('real', directory);
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await target.publish();
    expect(lstatSync(directory).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(parent, 'real/a'), 'utf8')).toBe('one');
  });

  it('a symbolic link to nothing is TargetExists', async () => {
    symlinkSync('nowhere', directory);
    await expect(localFiles.openTarget(directory)).rejects.toEqual(code('TargetExists', 'does not exist'));
  });

  it('the root of the file system is InvalidArgument', async () => {
    await expect(localFiles.openTarget('/', { replace: 'everything' })).rejects.toEqual(
      code('InvalidArgument'),
    );
  });

  it('a directory of the longest name works', async () => {
    directory = join(parent, 'é'.repeat(127));
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    await target.publish();
    expect(read('a')).toBe('one');
  });

  it('files that another process puts into the directory meanwhile are not overwritten', async () => {
    const target = await localFiles.openTarget(directory);
    await write(target, 'a', 'one');
    mkdirSync(directory);
    writeFileSync(join(directory, 'theirs'), 'theirs');
    await expect(target.publish()).rejects.toEqual(code('TargetExists'));
    await target.discard();
    expect([siblings(), read('theirs')]).toEqual([['ckpt'], 'theirs']);
  });

  it('stops when the signal has fired', async () => {
    await expect(localFiles.openTarget(directory, { signal: AbortSignal.abort() })).rejects.toEqual(
      code('Aborted'),
    );
    expect(readdirSync(parent)).toEqual([]);
  });

  it('stops while many directories are made durable', async () => {
    const stop = new AbortController();
    const target = await localFiles.openTarget(directory, { signal: stop.signal });
    for (let index = 0; index < 10; index++) await target.makeDirectory?.({ name: `d${index}` });
    stop.abort();
    await expect(target.publish()).rejects.toEqual(code('Aborted'));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });
});

describe('names', () => {
  it.each(['../x', '..', 'a/../../x', '/etc/x', '', '.', 'a/./b', 'a//b', 'a/', 'a/../b', 'a\0b'])(
    '%j is InvalidArgument, and nothing is written',
    async (name) => {
      const target = await localFiles.openTarget(directory);
      await expect(target.open({ name, sizeBytes: 1 })).rejects.toEqual(code('InvalidArgument'));
      await target.publish();
      expect([readdirSync(directory), siblings()]).toEqual([[], ['ckpt']]);
    },
  );

  it.each([
    ['a', 'a'],
    ['a', 'a/b'],
    ['a/b', 'a'],
  ])('%s and %s cannot both be there', async (first, second) => {
    const target = await localFiles.openTarget(directory);
    await write(target, first, 'one');
    await expect(target.open({ name: second, sizeBytes: 1 })).rejects.toEqual(
      code('InvalidArgument', `"${second}"`),
    );
    await target.discard();
  });

  it('a link that another process put into the temporary directory is not followed', async () => {
    const target = await localFiles.openTarget(directory);
    const [sibling] = readdirSync(parent);
    symlinkSync(join(parent, 'outside'), join(parent, sibling!, 'a'));
    await expect(target.open({ name: 'a', sizeBytes: 1 })).rejects.toEqual(
      code('Conflict', `${sibling}/a is a symbolic link`),
    );
    expect(existsSync(join(parent, 'outside'))).toBe(false);
    await target.discard();
  });

  it('a name that is too long for the file system is InvalidArgument', async () => {
    const target = await localFiles.openTarget(directory);
    await expect(target.open({ name: 'x'.repeat(256), sizeBytes: 1 })).rejects.toEqual(
      code('InvalidArgument'),
    );
    await target.discard();
  });
});

describe('a sink', () => {
  it('refuses bytes outside the file', async () => {
    const target = await localFiles.openTarget(directory);
    const sink = await target.open({ name: 'a', sizeBytes: 4 });
    await expect(sink.writeAt(2, text('abc'))).rejects.toEqual(code('InvalidArgument', 'bytes 2 to 5'));
    await expect(sink.writeAt(-1, text('a'))).rejects.toEqual(code('InvalidArgument'));
    await target.discard();
  });

  it('a file that was not written to its end is not passed off as complete', async () => {
    const target = await localFiles.openTarget(directory);
    const sink = await target.open({ name: 'a', sizeBytes: 4 });
    await sink.writeAt(0, text('abc'));
    await expect(sink.close()).rejects.toEqual(code('InvalidArgument', '4 bytes, but 3'));
    await target.discard();
  });

  it.each([
    ['write', 'ENOSPC', 'StorageFull'],
    ['write', 'EDQUOT', 'StorageFull'],
    ['write', 'EIO', 'Unavailable'],
    ['fdatasync', 'ENOSPC', 'StorageFull'],
    ['fdatasync', 'EIO', 'Unavailable'],
    ['fchmod', 'EPERM', 'Denied'],
  ] as const)('a failure of %s (%s) is %s', async (call, errno, expected) => {
    const files = createLocalFiles({ ...nodeFileSystem, [call]: () => Promise.reject(errnoError(errno)) });
    const target = await files.openTarget(directory);
    await expect(write(target, 'a', 'one', 0o600)).rejects.toEqual(code(expected, '"a"'));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });
});

describe('publish', () => {
  /** Records renames, removals and syncs; the sync of a file or directory by its name. */
  function traced(overrides: Partial<FileSystem> = {}) {
    const steps: string[] = [];
    const names = new Map<number, string>();
    const short = (path: string) =>
      path.startsWith(parent)
        ? path.slice(parent.length).replace(/holdfast-[0-9a-f]{16}(\.[0-9a-f-]+)?/, 'holdfast-X') || '/'
        : 'above';
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      open: async (path, flags, mode) => {
        const descriptor = await nodeFileSystem.open(path, flags, mode);
        names.set(descriptor, existsSync('/proc') ? readlinkSync(`/proc/self/fd/${descriptor}`) : path);
        return descriptor;
      },
      fdatasync: async (descriptor) => {
        steps.push(`sync ${short(names.get(descriptor) ?? '')}`);
      },
      fsync: async (descriptor) => {
        const step = `sync ${short(names.get(descriptor) ?? '')}`;
        if (step !== 'sync above') steps.push(step);
      },
      rename: async (from, to) => {
        await nodeFileSystem.rename(from, to);
        steps.push(`rename ${short(from)} ${short(to)}`);
      },
      removeAll: async (path) => {
        await nodeFileSystem.removeAll(path);
        steps.push(`remove ${short(path)}`);
      },
      ...overrides,
    };
    return { steps, fileSystem };
  }

  it('files, then their directories, then the name: each is durable before the next step', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'old'), 'old');
    const { steps, fileSystem } = traced();
    const target = await createLocalFiles(fileSystem).openTarget(directory, { replace: 'everything' });
    await write(target, 'sub/a', 'one');
    await target.publish();
    const temporary = '/.ckpt.holdfast-X';
    expect(steps[0]).toBe(`sync ${temporary}/sub/a`);
    const placed = steps.indexOf(`rename ${temporary} /ckpt`);
    const before = steps.slice(0, placed);
    expect(before).toContain(`sync ${temporary}`);
    expect(before).toContain(`sync ${temporary}/sub`);
    expect(before.at(-1)).toBe(`rename /ckpt ${temporary}.old`);
    expect(steps.slice(placed + 1)).toEqual([
      'sync /',
      `rename ${temporary}.old ${temporary}.gone-0`,
      `remove ${temporary}.gone-0`,
    ]);
  });

  it('the old directory comes back if the new one cannot take its place', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'old'), 'old');
    let renames = 0;
    const { fileSystem } = traced({
      rename: (from, to) =>
        ++renames === 2 ? Promise.reject(errnoError('EIO')) : nodeFileSystem.rename(from, to),
    });
    const target = await createLocalFiles(fileSystem).openTarget(directory, { replace: 'everything' });
    await write(target, 'a', 'one');
    await expect(target.publish()).rejects.toEqual(code('Unavailable', directory));
    await target.discard();
    expect([siblings(), readdirSync(directory)]).toEqual([['ckpt'], ['old']]);
  });

  it('after a crash between the two renames the old directory is there under the name beside it', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'old'), 'old');
    let renames = 0;
    const { fileSystem } = traced({
      // The process ends here: nothing more happens.
      rename: (from, to) =>
        ++renames === 2 ? new Promise(() => undefined) : nodeFileSystem.rename(from, to),
    });
    const target = await createLocalFiles(fileSystem).openTarget(directory, { replace: 'everything' });
    await write(target, 'a', 'one');
    void target.publish();
    while (renames < 2) await new Promise(setImmediate);
    const aside = readdirSync(parent).find((name) => name.endsWith('.old'));
    expect(readFileSync(join(parent, aside!, 'old'), 'utf8')).toBe('old');
  });

  it('the old directory is kept when the new name could not be made durable', async () => {
    mkdirSync(directory);
    writeFileSync(join(directory, 'old'), 'old');
    let isPlaced = false;
    const { fileSystem } = traced({
      rename: async (from, to) => {
        await nodeFileSystem.rename(from, to);
        isPlaced = to === directory;
      },
      fsync: (descriptor) =>
        isPlaced ? Promise.reject(errnoError('EIO')) : nodeFileSystem.fsync(descriptor),
    });
    const target = await createLocalFiles(fileSystem).openTarget(directory, { replace: 'everything' });
    await write(target, 'a', 'one');
    await expect(target.publish()).rejects.toEqual(code('Unavailable', directory));
    await target.discard();
    expect(read('a')).toBe('one');
    expect(readdirSync(parent).filter((name) => name.endsWith('.old'))).toHaveLength(1);
  });

  it('a directory that cannot be made durable is not published', async () => {
    const { fileSystem } = traced({ fsync: () => Promise.reject(errnoError('EIO')) });
    const target = await createLocalFiles(fileSystem).openTarget(directory);
    await write(target, 'a', 'one');
    await expect(target.publish()).rejects.toEqual(code('Unavailable'));
    await target.discard();
    expect(readdirSync(dirname(directory))).toEqual([]);
  });

  it.each([
    ['EROFS', 'ReadOnly'],
    ['EACCES', 'Denied'],
    ['ENOSPC', 'StorageFull'],
  ])('a parent directory that refuses (%s) is %s at once', async (errno, expected) => {
    const files = createLocalFiles({ ...nodeFileSystem, mkdir: () => Promise.reject(errnoError(errno)) });
    await expect(files.openTarget(directory)).rejects.toEqual(code(expected, directory));
  });
});
