import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RestoreTarget } from '@holdfast/core/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { openTargetFile } from './target-file.ts';

/** Declares the used part of `WebAssembly`, which the language's own types lack. */
declare const WebAssembly: {
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer };
};

/** Page-aligned memory with a different byte at each position. */
function alignedBytes(lengthBytes: number, seed = 1): Uint8Array {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(lengthBytes / 65536) + 1 });
  const bytes = new Uint8Array(memory.buffer, 0, lengthBytes);
  for (let i = 0, x = seed; i < lengthBytes; i++) {
    x = (Math.imul(x, 1103515245) + 12345) >>> 0;
    bytes[i] = x >>> 16;
  }
  return bytes;
}

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const text = (value: string) => new TextEncoder().encode(value);

let parent: string;
let path: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-target-file-'));
  path = join(parent, 'model.bin');
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

async function write(target: RestoreTarget, value: string, mode?: number): Promise<void> {
  const bytes = text(value);
  const sink = await target.open({ name: 'any', sizeBytes: bytes.byteLength, mode });
  await sink.writeAt(0, bytes);
  await sink.close();
}

const content = () => readFileSync(path, 'utf8');
const modeOf = (file: string) => statSync(file).mode & 0o777;

describe('a file that is written', () => {
  it('appears with publish, whole, with the mode of any new file', async () => {
    const target = await openTargetFile(path);
    await write(target, 'one');
    expect(existsSync(path)).toBe(false);
    await target.publish();
    expect([readdirSync(parent), content()]).toEqual([['model.bin'], 'one']);
    writeFileSync(join(parent, 'other'), '');
    expect(modeOf(path)).toBe(modeOf(join(parent, 'other')));
  });

  it('only its owner can read it before', async () => {
    const target = await openTargetFile(path);
    const [sibling] = readdirSync(parent);
    expect(sibling).toMatch(/^\.model\.bin\.holdfast-[0-9a-f]{16}(\.[0-9a-f-]+)?$/);
    expect(modeOf(join(parent, sibling!))).toBe(0o600);
    await target.discard();
  });

  it('a mode that is asked for is given, missing parent directories are made, and no byte is a size too', async () => {
    path = join(parent, 'deep/er/empty');
    const target = await openTargetFile(path);
    await write(target, '', 0o640);
    await target.publish();
    expect([statSync(path).size, modeOf(path)]).toEqual([0, 0o640]);
  });

  it('discard leaves nothing behind at any time, may be repeated, and takes nothing away that is published', async () => {
    for (const step of ['prepared', 'open', 'written']) {
      const target = await openTargetFile(path);
      const sink = step === 'open' ? await target.open({ name: 'a', sizeBytes: 3 }) : undefined;
      if (step === 'written') await write(target, 'one');
      await target.discard();
      await target.discard();
      expect(readdirSync(parent)).toEqual([]);
      if (sink) await expect(sink.writeAt(0, text('abc'))).rejects.toEqual(code('Aborted'));
      await expect(target.publish()).rejects.toEqual(
        code('InvalidArgument', 'already published or discarded'),
      );
    }
    const target = await openTargetFile(path);
    await write(target, 'one');
    await target.publish();
    await target.discard();
    expect(content()).toBe('one');
  });

  it('it takes one file, written to its end', async () => {
    const target = await openTargetFile(path);
    await expect(target.publish()).rejects.toEqual(code('InvalidArgument', 'not completely written'));
    const sink = await target.open({ name: 'a', sizeBytes: 3 });
    await expect(target.open({ name: 'b', sizeBytes: 3 })).rejects.toEqual(
      code('InvalidArgument', 'one file, once'),
    );
    await expect(sink.writeAt(1, text('abc'))).rejects.toEqual(code('InvalidArgument', 'lie outside "a"'));
    await expect(target.publish()).rejects.toEqual(code('InvalidArgument', 'not completely written'));
    await sink.writeAt(0, text('ab'));
    await expect(sink.close()).rejects.toEqual(
      code('InvalidArgument', 'should have 3 bytes, but 2 were written'),
    );
    await expect(target.publish()).rejects.toEqual(code('InvalidArgument', 'not completely written'));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'pieces of any size at any offset, all at once: each byte is where it was written (seed %i)',
    async (seed) => {
      const memory = alignedBytes(3 * 1024 * 1024, seed);
      let state = seed;
      const below = (limit: number) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0; // Numerical Recipes.
        return Math.floor((state / 2 ** 32) * limit);
      };
      const bytes = memory.subarray(0, memory.byteLength - below(5000));
      // Half of the edges are page edges: some pieces bypass the page cache, and their neighbours
      // do not.
      const edges = Array.from({ length: 24 }, (_, index) =>
        index % 2 === 0 ? below(bytes.byteLength) : below(bytes.byteLength / 4096) * 4096,
      );
      const cuts = [...new Set([0, ...edges.slice(0, 1 + below(24)), bytes.byteLength])].sort(
        (a, b) => a - b,
      );
      const target = await openTargetFile(path);
      const sink = await target.open({ name: 'a', sizeBytes: bytes.byteLength });
      const pieces = cuts.slice(1).map((end, index) => [cuts[index]!, end] as const);
      await Promise.all(
        pieces.reverse().map(([start, end]) => sink.writeAt(start, bytes.subarray(start, end))),
      );
      await sink.close();
      await target.publish();
      expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    },
  );
});

describe('where a file is', () => {
  it('it is not replaced: TargetExists before anything is written', async () => {
    writeFileSync(path, 'old');
    await expect(openTargetFile(path)).rejects.toEqual(code('TargetExists', path));
    symlinkSync('nothing', join(parent, 'link'));
    await expect(openTargetFile(join(parent, 'link'))).rejects.toEqual(code('TargetExists'));
    expect(readdirSync(parent)).toEqual(['link', 'model.bin']);
  });

  it('nor is one that another process creates meanwhile', async () => {
    const target = await openTargetFile(path);
    await write(target, 'one');
    writeFileSync(path, 'theirs');
    await expect(target.publish()).rejects.toEqual(code('TargetExists', 'another process'));
    await target.discard();
    expect([readdirSync(parent), content()]).toEqual([['model.bin'], 'theirs']);
  });

  it('replace: the old one is there until the new one is, which gets its mode', async () => {
    writeFileSync(path, 'old');
    chmodSync(path, 0o604);
    const target = await openTargetFile(path, { replace: true });
    await write(target, 'new');
    expect(content()).toBe('old');
    await target.publish();
    expect([readdirSync(parent), content(), modeOf(path)]).toEqual([['model.bin'], 'new', 0o604]);
  });

  it('replace: a link stands for the file that it names; one to nothing, a directory and a device are refused', async () => {
    mkdirSync(join(parent, 'elsewhere'));
    writeFileSync(join(parent, 'elsewhere/file'), 'old');
    symlinkSync('elsewhere/file', path);
    const target = await openTargetFile(path, { replace: true });
    await write(target, 'new');
    await target.publish();
    expect([readlinkSync(path), content()]).toEqual(['elsewhere/file', 'new']);
    symlinkSync('nothing', join(parent, 'dangling'));
    for (const [name, what] of [
      [join(parent, 'dangling'), 'a symbolic link to a file that does not exist'],
      [parent, 'not a regular file'],
      ['/dev/null', 'not a regular file'],
    ])
      await expect(openTargetFile(name!, { replace: true })).rejects.toEqual(code('TargetExists', what));
  });
});

describe('another program', () => {
  const hidden = () => join(parent, readdirSync(parent).find((name) => name.includes('.holdfast-')) ?? '');

  it.each([
    ['removes the file before it gets its name', () => rmSync(hidden()), 'is gone'],
    [
      'puts another one in its place',
      () => {
        writeFileSync(join(parent, 'other'), 'other');
        renameSync(join(parent, 'other'), hidden());
      },
      'is not the file that was written',
    ],
    [
      'puts a link in its place',
      () => {
        const file = hidden();
        renameSync(file, join(parent, 'moved'));
        symlinkSync('moved', file);
      },
      'is a symbolic link',
    ],
  ])('%s: Conflict', async (_, act, found) => {
    const target = await openTargetFile(path);
    await write(target, 'one');
    act();
    await expect(target.publish()).rejects.toEqual(code('Conflict', found));
    await target.discard();
    expect(existsSync(path)).toBe(false);
  });

  it('puts another one in its place in the moment after: Conflict', async () => {
    const rename: FileSystem['rename'] = async (from, to) => {
      await nodeFileSystem.rename(from, to);
      writeFileSync(join(parent, 'other'), 'other');
      renameSync(join(parent, 'other'), to);
    };
    const target = await openTargetFile(path, { replace: true }, { ...nodeFileSystem, rename });
    await write(target, 'one');
    await expect(target.publish()).rejects.toEqual(code('Conflict', `${path} is not the file`));
    await target.discard();
  });
});

describe('a disk that fails', () => {
  const failing = (call: keyof FileSystem, errno: string): FileSystem => ({
    ...nodeFileSystem,
    [call]: () => Promise.reject(errnoError(errno)),
  });

  it.each([
    ['lstat', 'EACCES', 'Denied'],
    ['open', 'EROFS', 'ReadOnly'],
    ['open', 'ENOSPC', 'StorageFull'],
    ['fstat', 'EIO', 'Unavailable'],
    ['fchmod', 'EPERM', 'Denied'],
  ] as const)('%s (%s) while it is prepared is %s, and nothing is left', async (call, errno, expected) => {
    await expect(openTargetFile(path, {}, failing(call, errno))).rejects.toEqual(code(expected, path));
    expect(readdirSync(parent)).toEqual([]);
  });

  it.each([
    ['write', 'ENOSPC', 'StorageFull'],
    ['fdatasync', 'EIO', 'Unavailable'],
  ] as const)('%s (%s) is %s: it is never published', async (call, errno, expected) => {
    const target = await openTargetFile(path, {}, failing(call, errno));
    await expect(write(target, 'one')).rejects.toEqual(code(expected, '"any"'));
    await expect(target.publish()).rejects.toEqual(code('InvalidArgument'));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });

  it.each([
    ['link', 'EIO', 'Unavailable', {}],
    ['link', 'EPERM', 'Unsupported', {}],
    ['rename', 'EACCES', 'Denied', { replace: true }],
  ] as const)('%s (%s) is %s, and discard leaves nothing', async (call, errno, expected, options) => {
    const target = await openTargetFile(path, options, failing(call, errno));
    await write(target, 'one');
    await expect(target.publish()).rejects.toEqual(code(expected, path));
    await target.discard();
    expect(readdirSync(parent)).toEqual([]);
  });

  it('a name that cannot be made durable is an error, and the file stays', async () => {
    const target = await openTargetFile(path, {}, failing('fsync', 'EIO'));
    await write(target, 'one');
    await expect(target.publish()).rejects.toEqual(code('Unavailable', path));
    await target.discard();
    expect([readdirSync(parent), content()]).toEqual([['model.bin'], 'one']);
  });

  it('bytes are durable before the name, and the name before publish resolves', async () => {
    const steps: string[] = [];
    const noting = (name: keyof FileSystem, label: string): Partial<FileSystem> => ({
      [name]: async (...args: never[]) => {
        await (nodeFileSystem[name] as (...given: never[]) => Promise<unknown>)(...args);
        if (steps.at(-1) !== label) steps.push(label);
      },
    });
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      ...noting('fdatasync', 'bytes'),
      ...noting('link', 'name'),
      ...noting('fsync', 'directory'),
    };
    const target = await openTargetFile(path, {}, fileSystem);
    await write(target, 'one');
    await target.publish();
    expect(steps).toEqual(['bytes', 'name', 'directory']);
  });
});

it('a caller that has stopped prepares nothing', async () => {
  await expect(openTargetFile(path, { signal: AbortSignal.abort() })).rejects.toEqual(code('Aborted'));
  expect(readdirSync(parent)).toEqual([]);
});

it('a file of a run is never replaced', async () => {
  const run = join(parent, 'run');
  mkdirSync(join(run, 'catalog'), { recursive: true });
  const entry = join(run, 'catalog/00000000000000000001.json');
  writeFileSync(entry, 'entry');
  writeFileSync(join(run, 'run.json'), 'run');
  for (const path of [entry, join(run, 'run.json')]) {
    const refusal = code('InvalidArgument', `lies in the run ${run}`);
    await expect(openTargetFile(path, { replace: true })).rejects.toEqual(refusal);
  }
  expect(readFileSync(entry, 'utf8')).toBe('entry');
});

it('a new file does not go into a run either, and nothing is made there', async () => {
  const run = join(parent, 'run');
  mkdirSync(join(run, 'catalog'), { recursive: true });
  mkdirSync(join(run, 'version_1'));
  writeFileSync(join(run, 'catalog/00000000000000000001.json'), 'entry');
  symlinkSync('run/version_1', join(parent, 'link'));
  for (const path of ['run/new.json', 'run/new/deep/new.json', 'link/new.json', 'link/new/deep/new.json']) {
    const refusal = code('InvalidArgument', `lies in the run ${run}`);
    await expect(openTargetFile(join(parent, path)), path).rejects.toEqual(refusal);
  }
  expect(readdirSync(run)).toEqual(['catalog', 'version_1']);
  expect(readdirSync(join(run, 'version_1'))).toEqual([]);
});
