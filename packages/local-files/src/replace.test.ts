/** What a target may replace, and what happens to the files beside it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LeftDirectory } from '@holdfast/core/contract';
import { describe, expect, it, vi } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { processText } from './processes.ts';
import {
  code,
  directory,
  eachInNewDirectory,
  files,
  GONE,
  hidden,
  LIVING,
  parent,
  processOf,
  put,
  type Restore,
  restore,
} from './replacing.testing.ts';
import { inspectTarget, openTarget } from './target.ts';

eachInNewDirectory();

describe('replace: true', () => {
  it('takes the place of what a target has put there, again and again, and leaves one note', async () => {
    await restore({ files: ['a', 'sub/b', 'sub/"c"\n'] });
    await restore({ replace: true, files: ['d'] });
    await restore({ replace: true, files: ['e'] });
    expect([files(), hidden().length, hidden('.made-0').length]).toEqual([['e'], 1, 1]);
    // ElasticDL parses a number from the names beside a version, or fails.
    expect(hidden()[0]?.split('-').at(-1)).toBe('0');
    expect(statSync(join(parent, hidden('.made-0')[0]!)).mode & 0o777).toBe(0o600);
  });

  it('also when files of it were removed, or the parent was moved', async () => {
    await restore({ files: ['a', 'b'] });
    rmSync(join(directory, 'a'));
    const moved = `${parent}-moved`;
    renameSync(parent, moved);
    await restore({ to: join(moved, 'ckpt'), replace: true, files: ['c'] });
    expect(files(join(moved, 'ckpt'))).toEqual(['c']);
    renameSync(moved, parent);
  });

  const touch = (path: string, byMs: number) => {
    const { atimeMs, mtimeMs } = statSync(path);
    utimesSync(path, atimeMs / 1000, (mtimeMs + byMs) / 1000);
  };
  it.each([
    ['a file beside them', () => put('ckpt/notes.txt'), 1],
    ['files far below', () => ['1', '2', '3'].map((name) => put(`ckpt/sub/deep/${name}`)), 3],
    ['one that was written to', () => put('ckpt/a', 'A'), 1],
    ['one of another size', () => put('ckpt/a', 'longer'), 1],
    ['one that another program has put there', () => touch(join(directory, 'a'), -1000), 1],
    ['an empty directory', () => mkdirSync(join(directory, 'sub/mine')), 1],
    [
      'empty directories only',
      () => ['x/y', 'z'].map((name) => mkdirSync(join(directory, name), { recursive: true })),
      2,
    ],
    ['a link', () => symlinkSync('a', join(directory, 'link')), 1],
    ['a name that is not UTF-8', () => writeFileSync(nameOfBytes(), ''), 1],
    ['no note', () => rmSync(join(parent, hidden('.made-0')[0]!)), 2],
    ['half a note', () => put(hidden('.made-0')[0]!, '["1 2'), 2],
    ['a note that is something else', () => put(hidden('.made-0')[0]!, '{}'), 2],
  ])('is refused where there is more, or other, than that: %s', async (_, change, foreignCount) => {
    await restore({ files: ['a', 'sub/b'] });
    change();
    const before = files();
    const refusal = expect.objectContaining({
      code: 'TargetExists',
      context: { path: directory, foreignCount },
    });
    await expect(restore({ replace: true, files: ['c'] })).rejects.toEqual(refusal);
    expect([files(), hidden('.old')]).toEqual([before, []]);
    await restore({ replace: 'everything', files: ['c'] });
    expect(files()).toEqual(['c']);
    // From now on it counts as made by a target.
    await restore({ replace: true, files: ['d'] });
    expect(files()).toEqual(['d']);
  });
  it('replaces directories that a target made, also those that are empty now', async () => {
    const target = await openTarget(directory);
    await target.makeDirectory?.({ name: 'empty/inner' });
    const sink = await target.open({ name: 'sub/a', sizeBytes: 0 });
    await sink.close();
    await target.publish();
    rmSync(join(directory, 'sub/a'));
    await restore({ replace: true, files: ['b'] });
    expect(readdirSync(directory)).toEqual(['b']);
    mkdirSync(join(directory, 'mine'));
    await expect(restore({ replace: true })).rejects.toThrow(
      `${directory} holds 1 empty directory that Holdfast did not put there, or that changed since, such as "mine/"`,
    );
  });

  const nameOfBytes = () => Buffer.concat([Buffer.from(`${directory}/`), Buffer.from([0xff])]);

  it('an old directory that cannot be removed is told of, and tried again by the next restore', async () => {
    await restore();
    const told: LeftDirectory[] = [];
    const onLeft = (each: LeftDirectory) => told.push(each);
    const removeAll = () => Promise.reject(Object.assign(new Error(), { code: 'EPERM', syscall: 'unlink' }));
    const fileSystem = { ...nodeFileSystem, removeAll };
    await restore({ replace: true, files: ['b'], fileSystem, onLeft });
    const path = join(parent, hidden('.gone-0')[0]!);
    expect([files(), told.map((each) => each.path)]).toEqual([['b'], [path]]);
    await restore({ replace: true, files: ['c'], fileSystem, onLeft });
    expect(told.filter((each) => each.path === path).length).toBe(2);
    await restore({ replace: true, files: ['d'], onLeft });
    expect([files(), hidden('.gone-0'), told.length]).toEqual([['d'], [], 3]);
  });

  it('two at once: the note of the one that is not in place yet stays', async () => {
    await restore();
    const first: Promise<void>[] = [];
    // The second has written its note, and has not moved yet, when the first is in place.
    const rename: FileSystem['rename'] = async (from, to) => {
      if (to.endsWith('.old') && first.length === 0) {
        first.push(restore({ replace: true, files: ['b'] }));
        await first[0];
      }
      await nodeFileSystem.rename(from, to);
    };
    await restore({ replace: true, files: ['c'], fileSystem: { ...nodeFileSystem, rename } });
    expect(files()).toEqual(['c']);
    await restore({ replace: true, files: ['d'] });
    expect([files(), hidden('.made-0').length]).toEqual([['d'], 1]);
  });

  it('by names, where they tell whose a file is; then there is no note', async () => {
    const isOwn = (name: string) => name.endsWith('.ckpt');
    put('ckpt/1.ckpt');
    await restore({ replace: true, isOwn, files: ['2.ckpt'] });
    expect([files(), hidden()]).toEqual([['2.ckpt'], []]);
    put('ckpt/readme');
    await expect(restore({ replace: true, isOwn })).rejects.toEqual(code('TargetExists', '"readme"'));
  });

  it('the bytes of the note are durable before the directory gets its name', async () => {
    const order: string[] = [];
    const names = new Map<number, string>();
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      open: async (path, ...rest) => {
        const descriptor = await nodeFileSystem.open(path, ...rest);
        names.set(descriptor, path);
        return descriptor;
      },
      fdatasync: async (descriptor) => {
        if (names.get(descriptor)?.endsWith('.made-0')) order.push('note');
        await nodeFileSystem.fdatasync(descriptor);
      },
      rename: async (from, to) => {
        if (to === directory) order.push('name');
        await nodeFileSystem.rename(from, to);
      },
    };
    await restore({ replace: true, fileSystem });
    expect(order).toEqual(['note', 'name']);
  });

  it.each(['EMFILE', 'EIO'])('keeps a note that could not be read once (%s)', async (errno) => {
    await restore({ replace: true });
    let isFirst = true;
    const readText: FileSystem['readText'] = async (path) => {
      const isBroken =
        isFirst &&
        path.endsWith('.made-0') &&
        existsSync(join(directory, 'b')) &&
        hidden('.old').length === 0;
      if (!isBroken) return nodeFileSystem.readText(path);
      isFirst = false;
      throw Object.assign(new Error(errno), { code: errno, syscall: 'open' });
    };
    await restore({ replace: true, files: ['b'], fileSystem: { ...nodeFileSystem, readText } });
    expect([isFirst, hidden('.made-0').length]).toEqual([false, 1]);
    await restore({ replace: true, files: ['c'] });
    expect(files()).toEqual(['c']);
  });

  it('a rename that took effect and whose answer was lost is a success', async () => {
    await restore({ replace: true });
    const rename: FileSystem['rename'] = async (from, to) => {
      await nodeFileSystem.rename(from, to);
      if (to === directory) throw Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'rename' });
    };
    await restore({ replace: true, files: ['b'], fileSystem: { ...nodeFileSystem, rename } });
    await restore({ replace: true, files: ['c'] });
    expect(files()).toEqual(['c']);
  });

  it('without room for its note a restore succeeds, and the next one has to be told "everything"', async () => {
    const full = async (path: string, flags: number, mode?: number) => {
      if (path.endsWith('.made-0'))
        throw Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'open' });
      return nodeFileSystem.open(path, flags, mode);
    };
    await restore({ fileSystem: { ...nodeFileSystem, open: full } });
    expect([files(), hidden()]).toEqual([['a'], []]);
    await expect(restore({ replace: true })).rejects.toEqual(code('TargetExists'));
  });
});

describe('is never replaced, whatever is said', () => {
  const refused = async (to: string, why: string, fileSystem?: FileSystem) => {
    for (const replace of [true, 'everything'] as const) {
      await expect(restore({ to, replace, fileSystem })).rejects.toEqual(code('InvalidArgument', why));
    }
    await expect(inspectTarget(to, {}, { fileSystem })).rejects.toEqual(code('InvalidArgument', why));
  };

  it('a run, whatever holds one, and what lies in one, by any spelling', async () => {
    const entry = 'catalog/00000000000000000001.json';
    put(`data/run/${entry}`);
    put('data/run/version_1/0.1/manifest-0123456789abcdef.json');
    put('data/run/version_1/0.1/0.1-ab/model');
    put('data/other');
    symlinkSync('data', join(parent, 'link'));
    const run = join(parent, 'data/run');
    for (const to of [run, `${run}/../run/.`, relative(process.cwd(), run), join(parent, 'link/run')]) {
      await refused(to, 'is a run, or holds one');
    }
    for (const to of [parent, join(parent, 'data'), join(parent, 'link')]) await refused(to, entry);
    await refused(join(run, 'catalog'), 'lies in the run');
    await refused(join(run, 'version_1'), 'lies in the run');
    await refused(join(run, 'version_1/0.1'), 'lies in the run');
    expect(files(join(parent, 'data'))).toContain(`run/${entry}`);
  });

  it('a directory of payloads of a run; nor does a new one go among them', async () => {
    put('run/catalog/00000000000000000001.json');
    put('run/version_1/0.1/0.1-ab/model');
    const inside = join(parent, 'run/version_1/0.1/0.1-ab');
    await expect(restore({ to: inside, replace: 'everything' })).rejects.toEqual(
      code('InvalidArgument', `lies in the run ${parent}/run`),
    );
    for (const to of ['run/resume', 'run/new/deep', 'run/version_1/0.1/0.1-ab/new']) {
      await expect(restore({ to: join(parent, to) })).rejects.toEqual(
        code('InvalidArgument', `lies in the run ${parent}/run`),
      );
    }
    symlinkSync('run', join(parent, 'link'));
    symlinkSync('run/version_1', join(parent, 'link2'));
    for (const to of ['link/new/deep', 'link2/new/deep'])
      await expect(restore({ to: join(parent, to) }), to).rejects.toEqual(code('InvalidArgument'));
    expect(files(join(parent, 'run'))).not.toContain('new');
    expect(existsSync(join(parent, 'run/resume'))).toBe(false);
  });

  it('/, the working directory, and what holds it', async () => {
    // These directories are real: they are only examined.
    const why = (to: string) => inspectTarget(to).catch((error: { message: string }) => error.message);
    expect(await why('/')).toContain('/ is the root of the file system: it is never replaced');
    for (const to of ['.', dirname(process.cwd())])
      expect(await why(to)).toContain('is the working directory, or holds it: it is never replaced');
  });

  it('the working directory and a home directory also when they are empty', async () => {
    mkdirSync(join(parent, 'home'));
    const cwd = vi.spyOn(process, 'cwd').mockReturnValue(directory);
    try {
      mkdirSync(directory);
      for (const replace of [undefined, true, 'everything'] as const) {
        const restoring = restore({ to: directory, replace });
        await expect(restoring).rejects.toEqual(code('InvalidArgument', 'is the working directory'));
      }
      put('ckpt/a');
      await expect(restore({ to: directory })).rejects.toEqual(code('InvalidArgument', 'never replaced'));
    } finally {
      cwd.mockRestore();
    }
    const users = `ada:x:1:1::${parent}/home:/bin/sh\n`;
    const readText: FileSystem['readText'] = (path) =>
      path === '/etc/passwd' ? Promise.resolve(users) : nodeFileSystem.readText(path);
    await refused(join(parent, 'home'), 'is the home directory', { ...nodeFileSystem, readText });
  });

  it('a home directory, be it of another user, and what holds one', async () => {
    put('home/ada/notes');
    symlinkSync('home', join(parent, 'users'));
    const users = `root:x:0:0::/root:/bin/sh\nada:x:1:1::${parent}/users/ada:/bin/sh\nodd line\n`;
    const readText: FileSystem['readText'] = (path) =>
      path === '/etc/passwd' ? Promise.resolve(users) : nodeFileSystem.readText(path);
    const fileSystem = { ...nodeFileSystem, readText };
    await refused(join(parent, 'home/ada'), 'is the home directory', fileSystem);
    await refused(join(parent, 'users'), `/users/ada, or holds it`, fileSystem);
    put('home/ada/ckpt/a');
    await restore({ to: join(parent, 'home/ada/ckpt'), replace: 'everything', fileSystem });
  });

  it('a mount point, and what holds one', async () => {
    put('disk/with space/a');
    const mountInfo = `36 35 98:0 / ${parent}/disk/with\\040space rw - ext4 /dev/sda1 rw\n`;
    const readText =
      (text: string | null): FileSystem['readText'] =>
      (path) =>
        path === '/proc/self/mountinfo' && text !== null
          ? Promise.resolve(text)
          : nodeFileSystem.readText(path);
    const mounted = { ...nodeFileSystem, readText: readText(mountInfo) };
    await refused(join(parent, 'disk/with space'), 'is a mount point', mounted);
    await refused(join(parent, 'disk'), `holds a mount point, ${parent}/disk/with space`, mounted);
    rmSync(join(parent, 'disk/with space/a'));
    // Also an empty one, which no rename can replace.
    await refused(join(parent, 'disk/with space'), 'is a mount point', mounted);
  });

  it('without /proc a mount point is told by its device', async () => {
    put('disk/a');
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      readText: () => Promise.reject(Object.assign(new Error(), { code: 'ENOENT', syscall: 'open' })),
      stat: async (path) => {
        const stats = await nodeFileSystem.stat(path);
        return path === join(parent, 'disk') ? Object.assign(stats, { dev: 0n }) : stats;
      },
    };
    await refused(join(parent, 'disk'), 'is a mount point', fileSystem);
  });
});

describe('inspectTarget', () => {
  it('counts what would go', async () => {
    expect(await inspectTarget(directory)).toBeNull();
    await restore({ files: ['a', 'b'] });
    expect(await inspectTarget(directory)).toEqual({ fileCount: 2, foreignCount: 0, example: undefined });
    for (let count = 0; count < 200; count++) put(`ckpt/mine/${count}`);
    expect(await inspectTarget(directory)).toMatchObject({ fileCount: 202, foreignCount: 200 });
    put('file');
    await expect(inspectTarget(join(parent, 'file'))).rejects.toEqual(code('TargetExists'));
    await expect(inspectTarget(directory, { signal: AbortSignal.abort() })).rejects.toEqual(code('Aborted'));
  });
});

describe('what a process that was killed has left', () => {
  const HEX = '0123456789abcdef';
  const left = (ending: string, owner = `.${GONE}`) => `.ckpt.holdfast-${HEX}${owner}${ending}`;

  it('goes with the next target of the same name; it stays if its process may live', async () => {
    put(`${left('')}/half`);
    const stays = [
      left('', `.${processText(processOf(9))}`), // The process lives, or its state is unknown.
      left('', ''),
      left('.other'),
      `.ckpt2.holdfast-${HEX}.${GONE}`,
      `.ckpt.holdfast-short.${GONE}`,
    ];
    for (const name of stays) put(`${name}/a`);
    await restore();
    expect(hidden().filter((name) => !name.endsWith('.made-0'))).toEqual(stays.toSorted());
  });

  it('an old directory that was moved aside and not replaced comes back, and is then as any other', async () => {
    await restore({ files: ['old'] });
    const comeBack = async (options: Restore) => {
      renameSync(directory, join(parent, left('.old')));
      await restore(options).catch(({ code: refusal }) => expect(refusal).toBe('TargetExists'));
      return [files(), hidden('.old')];
    };
    expect(await comeBack({ files: ['new'] })).toEqual([['old'], []]);
    expect(await comeBack({ replace: true, files: ['new'] })).toEqual([['new'], []]);
    // Also by a link that leads to it.
    symlinkSync('ckpt', join(parent, 'link'));
    expect(await comeBack({ to: join(parent, 'link'), replace: true, files: ['newer'] })).toEqual([
      ['newer'],
      [],
    ]);
    renameSync(directory, join(parent, left('.old')));
    expect(await inspectTarget(directory, {}, { processes: LIVING })).toMatchObject({
      fileCount: 1,
      foreignCount: 0,
    });
  });

  it('one that was replaced goes; one of a process that may live stays', async () => {
    await restore({ files: ['old'] });
    renameSync(directory, join(parent, left('.old')));
    const other = left('.old', `.${processText(processOf(9))}`);
    put(`${other}/old`);
    put('ckpt/new');
    await restore({ replace: 'everything' });
    expect([files(), hidden('.old')]).toEqual([['a'], [other]]);
  });

  it('with files of others in it stays, and is told of again and again', async () => {
    put(`${left('.old')}/mine`);
    put('ckpt/new');
    const told: LeftDirectory[] = [];
    const onLeft = (each: LeftDirectory) => told.push(each);
    await restore({ replace: 'everything', onLeft });
    await restore({ replace: true, onLeft });
    const path = join(parent, left('.left-0'));
    expect(told.map((each) => each.path)).toEqual([path, path]);
    expect([files(), files(path)]).toEqual([['a'], ['mine']]);
  });

  it('names so long that they only begin alike have siblings of their own', async () => {
    const one = join(parent, `${'x'.repeat(200)}1`);
    const other = join(parent, `${'x'.repeat(200)}2`);
    await restore({ to: one });
    renameSync(
      one,
      join(
        parent,
        hidden('.made-0')[0]!
          .replace(processText(processOf(8)), GONE)
          .replace('.made-0', '.old'),
      ),
    );
    await restore({ to: other });
    expect([existsSync(one), files(other)]).toEqual([false, ['a']]);
    await restore({ to: other, replace: true, files: ['b'] });
    expect(hidden('.made-0').length).toBe(2);
    await restore({ to: one, replace: true, files: ['c'] });
    expect([files(one), hidden('.old')]).toEqual([['c'], []]);
    for (const name of hidden()) expect(name.length).toBeLessThan(256);
  });

  it('an old directory that cannot be removed does not prevent a restore', async () => {
    put(`${left('')}/half`);
    const removeAll = () => Promise.reject(Object.assign(new Error(), { code: 'EACCES', syscall: 'rm' }));
    await restore({ fileSystem: { ...nodeFileSystem, removeAll } });
    expect(files()).toEqual(['a']);
  });

  it('a process that is killed while it writes, a directory or a file', async () => {
    const module = fileURLToPath(new URL('./index.ts', import.meta.url));
    const script = `
      const { localFiles, openTargetFile } = await import(${JSON.stringify(module)});
      const target = await localFiles.openTarget(${JSON.stringify(directory)});
      await (await target.open({ name: 'a', sizeBytes: 3 })).writeAt(0, Buffer.from('abc'));
      await openTargetFile(${JSON.stringify(join(parent, 'model'))});
      process.kill(process.pid, 'SIGKILL');`;
    const args = ['--conditions=holdfast-source', '--input-type=module', '-e', script];
    const [, signal] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit');
    expect([signal, hidden().length]).toEqual(['SIGKILL', 2]);
    const { localFiles, openTargetFile } = await import('./index.ts');
    await (await localFiles.openTarget(directory)).discard();
    await (await openTargetFile(join(parent, 'model'))).discard();
    expect(readdirSync(parent)).toEqual([]);
  });
});
