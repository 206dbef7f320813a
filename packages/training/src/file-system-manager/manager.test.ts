import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TrainingCheckpoint, TrainingCheckpointManager } from '../checkpoints.ts';
import { FileSystemCheckpointManager } from './manager.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

let root: string;
let manager: FileSystemCheckpointManager;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-file-system-manager-'));
  manager = new FileSystemCheckpointManager(root);
});

afterEach(() => rm(root, { recursive: true }));

async function write(checkpoint: TrainingCheckpoint, key: string, text: string): Promise<void> {
  const writer = checkpoint.openOutputStream(key).getWriter();
  await writer.write(Buffer.from(text));
  await writer.close();
}

async function save(text: string, to: TrainingCheckpointManager = manager): Promise<bigint> {
  const checkpoint = await to.create();
  await write(checkpoint, 'default', text);
  await checkpoint.commit();
  return checkpoint.version;
}

const read = async (checkpoint: TrainingCheckpoint | null, key = 'default') =>
  (await buffer(checkpoint!.openInputStream(key))).toString();

const versions = async () => (await manager.list()).map(({ version }) => version);

/** Names in the root, hidden ones without their random ends. */
const names = async () =>
  (await readdir(root)).map((name) => name.replace(/^\.holdfast-.*/, '.holdfast')).sort();

/** The machine's file system, with some calls replaced. */
const withCalls = (calls: Partial<FileSystem>) =>
  new FileSystemCheckpointManager(root, { ...nodeFileSystem, ...calls });

const errno = (code: string) => Object.assign(new Error(code), { code, syscall: 'test' });

const failing = (code: string) => async () => {
  throw errno(code);
};

describe('FileSystemCheckpointManager: numbers', () => {
  it('an empty directory has no latest and an empty list', async () => {
    expect(await manager.latest()).toBeNull();
    expect(await manager.list()).toEqual([]);
    expect(await manager.get(0n)).toBeNull();
  });

  it('a directory that is not there is empty, and create makes it', async () => {
    manager = new FileSystemCheckpointManager(join(root, 'a', 'b'));
    expect(await manager.latest()).toBeNull();
    expect(await save('first')).toBe(0n);
    expect(await read(await manager.latest())).toBe('first');
  });

  it('are not made in a run of Holdfast, nor below one, and nothing is left there', async () => {
    await mkdir(join(root, 'catalog'));
    await writeFile(join(root, 'catalog', '00000000000000000001.json'), '');
    for (const directory of [root, join(root, 'mine')]) {
      const inRun = new FileSystemCheckpointManager(directory);
      await expect(inRun.create()).rejects.toMatchObject({ code: 'InvalidArgument' });
      expect(await readdir(root)).toEqual(['catalog']);
    }
  });

  it('are 0, 1, 2, …, and 10 after 9: by number, newest first', async () => {
    for (let count = 0; count <= 10; count++) expect(await save(`text ${count}`)).toBe(BigInt(count));
    expect(await versions()).toEqual([10n, 9n, 8n, 7n, 6n, 5n, 4n, 3n, 2n, 1n, 0n]);
    expect((await manager.latest())?.version).toBe(10n);
    expect(await read(await manager.get(3n))).toBe('text 3');
    expect(await manager.get(11n)).toBeNull();
  });

  it('are one above the highest, whatever is missing below', async () => {
    await mkdir(join(root, '41'));
    expect(await save('next')).toBe(42n);
  });

  it('other names, and files, are passed over', async () => {
    for (const name of ['latest', '1.5', '7x', '.holdfast-0123', '1e3', ''])
      await mkdir(join(root, `${name}`), { recursive: true });
    await writeFile(join(root, '9'), 'a file');
    await symlink(join(root, 'nowhere'), join(root, '8'));
    expect(await manager.list()).toEqual([]);
    expect(await save('first')).toBe(0n);
  });

  it('above any set of directories, for any of them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.bigInt(0n, 1n << 80n), { maxLength: 5 }), async (numbers) => {
        const directory = await mkdtemp(join(root, 'case-'));
        for (const number of numbers) await mkdir(join(directory, `${number}`));
        const some = new FileSystemCheckpointManager(directory);
        const sorted = numbers.toSorted((a, b) => (a < b ? 1 : -1));
        expect((await some.list()).map(({ version }) => version)).toEqual(sorted);
        expect((await some.create()).version).toBe(sorted[0] === undefined ? 0n : sorted[0] + 1n);
      }),
      { numRuns: 20 },
    );
  });

  it('reads what torchelastic wrote: numbers as Python parses them, links to directories', async () => {
    for (const name of ['-1', '007', '12']) await mkdir(join(root, name));
    await writeFile(join(root, '007', 'default'), 'bytes of torch.save');
    await mkdir(join(root, 'elsewhere'));
    await symlink(join(root, 'elsewhere'), join(root, '15'));
    expect(await versions()).toEqual([15n, 12n, 7n, -1n]);
    expect(await read(await manager.get(7n))).toBe('bytes of torch.save');
    await mkdir(join(root, '7'));
    await writeFile(join(root, '7', 'default'), 'the one of the plain name');
    expect(await read(await manager.get(7n))).toBe('the one of the plain name');
  });

  it('begin at 0 above negative ones', async () => {
    await mkdir(join(root, '-5'));
    expect(await save('first')).toBe(0n);
  });

  it('if several commit at once, one is there, and the others are refused', async () => {
    const managers = Array.from({ length: 8 }, () => new FileSystemCheckpointManager(root));
    const begun = await Promise.all(managers.map((each) => each.create()));
    await Promise.all(begun.map((each, index) => write(each, 'default', `by ${index}`)));
    const outcomes = await Promise.allSettled(begun.map((each) => each.commit()));
    const winner = outcomes.findIndex(({ status }) => status === 'fulfilled');
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(refused.map(({ reason }) => reason.code)).toEqual(Array(7).fill('Conflict'));
    expect(await versions()).toEqual([0n]);
    expect(await read(await manager.latest())).toBe(`by ${winner}`);
  });

  it('one that others took meanwhile is refused: an older state never becomes the latest', async () => {
    const slow = await manager.create();
    await write(slow, 'default', 'slow');
    await save('quick');
    await mkdir(join(root, '5'));
    await expect(slow.commit()).rejects.toMatchObject({
      code: 'Conflict',
      status: 'temporary',
      message: expect.stringContaining('checkpoint 5 was committed after this one began as 0'),
      context: { version: 0n, newest: 5n },
    });
    await slow.discard();
    expect(await names()).toEqual(['0', '5']);
    expect(await save('next')).toBe(6n);
  });

  it('a file whose name is the next number is not replaced', async () => {
    await writeFile(join(root, '0'), 'mine');
    expect(await save('first')).toBe(1n);
    expect(await readFile(join(root, '0'), 'utf8')).toBe('mine');
  });

  it('if all are taken again and again, the commit ends as Unavailable', async () => {
    let triedCount = 0;
    const unlucky = withCalls({
      readdir: async () => [],
      rename: async (from, to) => {
        if (!from.endsWith('checkpoint')) return nodeFileSystem.rename(from, to);
        triedCount += 1;
        throw errno('ENOTEMPTY');
      },
    });
    await expect(save('text', unlucky)).rejects.toMatchObject({ code: 'Unavailable' });
    expect(triedCount).toBe(1000);
  });
});

describe('FileSystemCheckpointManager: a checkpoint', () => {
  it.each([
    ['a text', 'text', 'string'],
    ['an array', [1, 2], 'object'],
    ['nothing', null, 'null'],
    ['a buffer without a view', new ArrayBuffer(3), 'object'],
  ])('refuses %s as a chunk, and commits nothing', async (_, chunk, type) => {
    const checkpoint = await manager.create();
    const writer = checkpoint.openOutputStream('default').getWriter();
    await expect(writer.write(chunk as never)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: `the stream of "default" gave a chunk of type ${type}; it takes Uint8Array`,
    });
    await expect(checkpoint.commit()).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(await manager.latest()).toBeNull();
  });

  it('is not visible before commit, and whole after it, in the layout of torchelastic', async () => {
    await save('old');
    const checkpoint = await manager.create();
    await write(checkpoint, 'default', 'new');
    await write(checkpoint, 'optimizer', 'momentum');
    expect(await versions()).toEqual([0n]);
    expect(await manager.get(1n)).toBeNull();
    expect(() => checkpoint.openInputStream('default')).toThrow('is not committed');

    await checkpoint.commit();
    expect(await versions()).toEqual([1n, 0n]);
    expect(await names()).toEqual(['0', '1']);
    expect((await readdir(join(root, '1'))).sort()).toEqual(['default', 'optimizer']);
    expect(await readFile(join(root, '1', 'optimizer'), 'utf8')).toBe('momentum');
    expect(await read(checkpoint)).toBe('new');
  });

  it('committed twice, or at the same time, is committed once', async () => {
    const checkpoint = await manager.create();
    await write(checkpoint, 'default', 'text');
    await Promise.all([checkpoint.commit(), checkpoint.commit()]);
    await checkpoint.commit();
    await (await manager.latest())!.commit();
    expect(await versions()).toEqual([0n]);
  });

  it('discarded leaves nothing, and cannot be written or committed any more', async () => {
    const checkpoint = await manager.create();
    await write(checkpoint, 'default', 'text');
    const open = checkpoint.openOutputStream('optimizer').getWriter();
    await open.write(Buffer.from('half'));
    await checkpoint.discard();
    await checkpoint.discard();
    expect(await names()).toEqual([]);
    await expect(open.write(Buffer.from('more'))).rejects.toMatchObject({ code: 'Aborted' });
    await expect(checkpoint.commit()).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(() => checkpoint.openOutputStream('default')).toThrow('is already discarded');
  });

  it('discarded after commit stays, also when both are called at once', async () => {
    const checkpoint = await manager.create();
    await write(checkpoint, 'default', 'text');
    await Promise.all([checkpoint.commit(), checkpoint.discard()]);
    await (await manager.latest())!.discard();
    expect(await read(await manager.latest())).toBe('text');
  });

  it('a key opened twice: the last one counts, whichever is closed last', async () => {
    const checkpoint = await manager.create();
    await write(checkpoint, 'a', 'first');
    await write(checkpoint, 'a', 'second');
    const [earlier, later] = [checkpoint.openOutputStream('b'), checkpoint.openOutputStream('b')];
    const [early, late] = [earlier.getWriter(), later.getWriter()];
    await late.write(Buffer.from('later'));
    await late.close();
    await early.write(Buffer.from('earlier'));
    await early.close();
    await checkpoint.commit();
    expect([await read(checkpoint, 'a'), await read(checkpoint, 'b')]).toEqual(['second', 'later']);
  });

  it('with an open stream, or without a file, is not committed, and can be once that is mended', async () => {
    const checkpoint = await manager.create();
    await expect(checkpoint.commit()).rejects.toThrow('has no file to commit');
    const stream = checkpoint.openOutputStream('default').getWriter();
    await expect(checkpoint.commit()).rejects.toThrow('open or have failed: default');
    await stream.close();
    await checkpoint.commit();
    expect(await read(checkpoint)).toBe('');
  });

  it('after an aborted stream it is committed only once that key is written again', async () => {
    const checkpoint = await manager.create();
    await write(checkpoint, 'default', 'before');
    await checkpoint.openOutputStream('default').abort();
    await expect(checkpoint.commit()).rejects.toThrow('open or have failed: default; write those keys again');
    await write(checkpoint, 'default', 'after');
    await checkpoint.commit();
    expect(await read(checkpoint)).toBe('after');
  });

  it('after a stream that failed a key can be written again, and the failed file is closed', async () => {
    const opened: number[] = [];
    const closed: number[] = [];
    let isFull = true;
    const checkpoint = await withCalls({
      open: async (...call) => {
        opened.push(await nodeFileSystem.open(...call));
        return opened.at(-1)!;
      },
      close: async (descriptor) => {
        closed.push(descriptor);
        await nodeFileSystem.close(descriptor);
      },
      write: async (...call) => {
        if (isFull) throw errno('ENOSPC');
        return nodeFileSystem.write(...call);
      },
    }).create();
    await expect(write(checkpoint, 'default', 'text')).rejects.toMatchObject({ code: 'StorageFull' });
    expect(closed).toEqual(opened);
    isFull = false;
    await write(checkpoint, 'default', 'text');
    await checkpoint.commit();
    expect(await read(checkpoint)).toBe('text');
  });

  it('that is committed is not written any more', async () => {
    await save('text');
    const latest = await manager.latest();
    expect(() => latest!.openOutputStream('default')).toThrow('can no longer be written');
  });

  it('has files and nothing outside: another key is InvalidArgument', async () => {
    const checkpoint = await manager.create();
    for (const key of ['', '.', '..', '../x', 'a/b', 'a\\b', 'a\0', 'ä'.repeat(128)]) {
      expect(() => checkpoint.openOutputStream(key), key).toThrow('cannot be a key');
    }
    await write(checkpoint, 'default', 'text');
    await checkpoint.commit();
    expect(() => checkpoint.openInputStream('../0/default')).toThrow('cannot be a key');
  });

  it('without the key: the stream fails with NotFound', async () => {
    await save('text');
    await expect(read(await manager.latest(), 'other')).rejects.toMatchObject({ code: 'NotFound' });
  });

  it('larger than a chunk comes back byte for byte, and its file is closed when reading ends early or is forgotten', async () => {
    const text = 'long '.repeat(500_000);
    const opened: number[] = [];
    const closed: number[] = [];
    const watched = withCalls({
      open: async (...call) => {
        opened.push(await nodeFileSystem.open(...call));
        return opened.at(-1)!;
      },
      close: async (descriptor) => {
        closed.push(descriptor);
        await nodeFileSystem.close(descriptor);
      },
    });
    await save(text, watched);
    expect(await read(await watched.latest())).toBe(text);
    for await (const chunk of (await watched.latest())!.openInputStream('default')) {
      expect(chunk.byteLength).toBe(1024 * 1024);
      break;
    }
    expect(closed.sort()).toEqual(opened.sort());
    await (await watched.latest())!.openInputStream('default').getReader().read();
    while (closed.length < opened.length) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(closed.sort()).toEqual(opened.sort());
  });
});

describe('FileSystemCheckpointManager: failures', () => {
  it('whichever call fails, all is there or nothing, and what was there before', async () => {
    await save('before');
    for (let failAt = 0; ; failAt++) {
      let callCount = 0;
      const calls = ['mkdir', 'open', 'write', 'fsync', 'close', 'rename', 'readdir'] as const;
      const broken = Object.fromEntries(
        calls.map((name) => [
          name,
          async (...call: unknown[]) => {
            if (callCount++ === failAt) throw errno('EIO');
            return (nodeFileSystem[name] as (...call: unknown[]) => unknown)(...call);
          },
        ]),
      );
      const before = await versions();
      const outcome = await save(`text ${failAt}`, withCalls(broken)).then(
        () => 'saved',
        (error: { code: string }) => error.code,
      );
      const after = await versions();
      if (outcome === 'saved' || outcome === 'OutcomeUnknown') {
        expect(after).toHaveLength(before.length + 1);
        expect(await read(await manager.latest())).toBe(`text ${failAt}`);
      } else {
        expect(outcome).toBe('Unavailable');
        expect(after).toEqual(before);
      }
      if (callCount <= failAt) break;
    }
    expect(await read(await manager.get(0n))).toBe('before');
  });

  it('short writes are gone on with', async () => {
    const slow = withCalls({
      write: (descriptor, position) => nodeFileSystem.write(descriptor, { ...position, lengthBytes: 1 }),
    });
    await save('in small pieces', slow);
    expect(await read(await manager.latest())).toBe('in small pieces');
  });

  it('a full disk is StorageFull, the checkpoint cannot be committed without the key, and is discarded', async () => {
    const checkpoint = await withCalls({ write: failing('ENOSPC') }).create();
    await expect(write(checkpoint, 'default', 'text')).rejects.toMatchObject({ code: 'StorageFull' });
    await expect(checkpoint.commit()).rejects.toThrow('open or have failed: default');
    await checkpoint.discard();
    expect(await names()).toEqual([]);
  });

  it('discard tells if it could not remove what it had', async () => {
    const checkpoint = await withCalls({ removeAll: failing('EACCES') }).create();
    await expect(checkpoint.discard()).rejects.toMatchObject({ code: 'Denied' });
  });

  it('a root that is a file, or may not be read, is said to be so', async () => {
    const path = join(root, 'file');
    await writeFile(path, '');
    const wrong = new FileSystemCheckpointManager(path);
    await expect(wrong.latest()).rejects.toMatchObject({ code: 'NotFound' });
    await expect(wrong.create()).rejects.toMatchObject({ code: 'AlreadyExists' });
    await expect(withCalls({ readdir: failing('EACCES') }).list()).rejects.toMatchObject({ code: 'Denied' });
    await expect(withCalls({ mkdir: failing('EROFS') }).create()).rejects.toMatchObject({ code: 'ReadOnly' });
  });

  it('an error of reading says what was read', async () => {
    await save('text');
    const broken = withCalls({ read: failing('EIO') });
    await expect(read(await broken.latest())).rejects.toMatchObject({
      code: 'Unavailable',
      context: { path: join(root, '0', 'default') },
    });
  });
});
