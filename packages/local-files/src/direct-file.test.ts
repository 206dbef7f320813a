import { constants } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirectFile } from './direct-file.ts';
import { type FileSystem, type IoPosition, nodeFileSystem } from './file-system.ts';

const KIB = 1024;
const CREATE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
const O_DIRECT = constants.O_DIRECT ?? 0;

/** Declares the used part of `WebAssembly`, which the language's own types lack. */
declare const WebAssembly: {
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer };
};

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });

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

interface Traced {
  readonly fileSystem: FileSystem;
  /** One entry per transfer: the kind of descriptor, and the number of bytes requested. */
  readonly transfers: { kind: 'direct' | 'buffered'; lengthBytes: number; offsetBytes: number }[];
  readonly open: Set<number>;
}

/**
 * The real system calls, recorded. `direct` decides what happens when O_DIRECT is requested. The
 * default works on any disk.
 */
function traced(overrides: Partial<FileSystem> = {}, direct: 'simulated' | 'real' = 'simulated'): Traced {
  const directDescriptors = new Set<number>();
  const open = new Set<number>();
  const transfers: Traced['transfers'] = [];
  const calls: FileSystem = { ...nodeFileSystem, ...overrides };
  const note = (descriptor: number, { lengthBytes, offsetBytes }: IoPosition) =>
    transfers.push({
      kind: directDescriptors.has(descriptor) ? 'direct' : 'buffered',
      lengthBytes,
      offsetBytes,
    });
  const fileSystem: FileSystem = {
    ...calls,
    open: async (path, flags, mode) => {
      const wanted = direct === 'real' ? flags : flags & ~O_DIRECT;
      const descriptor = await calls.open(path, overrides.open === undefined ? wanted : flags, mode);
      open.add(descriptor);
      if (flags & O_DIRECT) directDescriptors.add(descriptor);
      return descriptor;
    },
    close: async (descriptor) => {
      open.delete(descriptor);
      await calls.close(descriptor);
    },
    read: (descriptor, position) => {
      note(descriptor, position);
      return calls.read(descriptor, position);
    },
    write: (descriptor, position) => {
      note(descriptor, position);
      return calls.write(descriptor, position);
    },
  };
  return { fileSystem, transfers, open };
}

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-direct-'));
  path = join(directory, 'file');
});
afterEach(() => rm(directory, { recursive: true }));

describe.runIf(process.platform === 'linux')('DirectFile on Linux', () => {
  it('writes the aligned body past the page cache and the tail through it', async () => {
    const { fileSystem, transfers } = traced();
    const bytes = alignedBytes(512 * KIB + 100);
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(0, bytes);
    await file.datasync();
    await file.close();
    expect(transfers).toEqual([
      { kind: 'direct', lengthBytes: 512 * KIB, offsetBytes: 0 },
      { kind: 'buffered', lengthBytes: 100, offsetBytes: 512 * KIB },
    ]);
    expect(Buffer.compare(await readFile(path), bytes)).toBe(0);
  });

  it('reads back what it wrote, with whatever this disk does', async () => {
    const { fileSystem } = traced({}, 'real');
    const bytes = alignedBytes(3 * 1024 * KIB + 4097);
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    const half = 1024 * KIB;
    await Promise.all([file.write(half, bytes.subarray(half)), file.write(0, bytes.subarray(0, half))]);
    await file.datasync();
    const found = alignedBytes(4 * 1024 * KIB);
    expect(await file.read(0, found)).toBe(bytes.byteLength);
    expect(Buffer.compare(found.subarray(0, bytes.byteLength), bytes)).toBe(0);
    const rest = alignedBytes(1024 * KIB);
    expect(await file.read(2 * 1024 * KIB, rest)).toBe(1024 * KIB);
    expect(Buffer.compare(rest, bytes.subarray(2 * 1024 * KIB, 3 * 1024 * KIB))).toBe(0);
    await file.close();
    expect(Buffer.compare(await readFile(path), bytes)).toBe(0);
  });

  it.each([
    ['an offset', 0, 100],
    ['an address', 100, 0],
    ['a length below the limit', 0, 0],
  ])('takes the buffered way for %s that is not aligned or too small', async (what, start, offset) => {
    const { fileSystem, transfers } = traced();
    const memory = alignedBytes(1024 * KIB);
    const bytes = memory.subarray(start, start + (what.startsWith('a length') ? 128 * KIB : 512 * KIB));
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(offset, bytes);
    await file.close();
    expect(transfers.map(({ kind }) => kind)).toEqual(['buffered']);
    expect(Buffer.compare((await readFile(path)).subarray(offset), bytes)).toBe(0);
  });

  it('falls back for good where the file system refuses O_DIRECT at open', async () => {
    let refusals = 0;
    const { fileSystem, transfers } = traced({
      open: async (name, flags, mode) => {
        if ((flags & O_DIRECT) === 0) return nodeFileSystem.open(name, flags, mode);
        refusals++;
        throw errnoError('EINVAL');
      },
    });
    const bytes = alignedBytes(512 * KIB);
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(0, bytes);
    await file.write(512 * KIB, bytes);
    await file.close();
    expect(refusals).toBe(1);
    expect(transfers.map(({ kind }) => kind)).toEqual(['buffered', 'buffered']);
    expect((await readFile(path)).byteLength).toBe(1024 * KIB);
  });

  it('falls back for the memory that a transfer refuses, and only for that', async () => {
    const misaligned = alignedBytes(512 * KIB);
    const { fileSystem, transfers } = traced({
      write: (descriptor, position) => {
        const isDirect = transfers.at(-1)?.kind === 'direct';
        if (isDirect && position.buffer.buffer === misaligned.buffer)
          return Promise.reject(errnoError('EINVAL'));
        return nodeFileSystem.write(descriptor, position);
      },
    });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(0, misaligned);
    await file.write(0, misaligned);
    await file.write(0, alignedBytes(512 * KIB));
    await file.close();
    expect(transfers.map(({ kind }) => kind)).toEqual(['direct', 'buffered', 'buffered', 'direct']);
  });

  it('passes on any other error of a direct transfer', async () => {
    const { fileSystem } = traced({ write: () => Promise.reject(errnoError('ENOSPC')) });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await expect(file.write(0, alignedBytes(512 * KIB))).rejects.toMatchObject({ code: 'ENOSPC' });
    await file.close();
  });

  it('closes the other descriptor even if closing one fails', async () => {
    const closed: number[] = [];
    const { fileSystem } = traced({
      close: async (descriptor) => {
        const isFirst = closed.push(descriptor) === 1;
        await nodeFileSystem.close(descriptor);
        if (isFirst) throw errnoError('EIO');
      },
    });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(0, alignedBytes(512 * KIB));
    await expect(file.close()).rejects.toMatchObject({ code: 'EIO' });
    expect(closed).toHaveLength(2);
  });

  it('an error of close counts only for bytes that are not durable yet', async () => {
    const { fileSystem } = traced({
      close: async (descriptor) => {
        await nodeFileSystem.close(descriptor);
        throw errnoError('EIO');
      },
    });
    const synced = await DirectFile.open(path, CREATE, { fileSystem });
    await synced.write(0, alignedBytes(512 * KIB));
    await synced.datasync();
    await synced.close();
    const read = await DirectFile.open(path, constants.O_RDONLY, { fileSystem });
    await read.read(0, alignedBytes(512 * KIB));
    await read.close();
    const changed = await DirectFile.open(path, constants.O_RDWR, { fileSystem });
    await changed.datasync();
    await changed.write(0, alignedBytes(4 * KIB));
    await expect(changed.close()).rejects.toMatchObject({ code: 'EIO' });
  });

  it('direct: false never asks for O_DIRECT', async () => {
    const { fileSystem, transfers } = traced();
    const file = await DirectFile.open(path, CREATE, { fileSystem, direct: false });
    await file.write(0, alignedBytes(512 * KIB));
    await file.close();
    expect(transfers.map(({ kind }) => kind)).toEqual(['buffered']);
  });
});

describe('DirectFile', () => {
  it('goes on after short transfers and interrupted calls', async () => {
    let calls = 0;
    const short = (position: IoPosition) => {
      calls++;
      if (calls % 3 === 0) throw errnoError('EINTR');
      return { ...position, lengthBytes: Math.min(position.lengthBytes, 3000) };
    };
    const { fileSystem } = traced({
      read: async (descriptor, position) => nodeFileSystem.read(descriptor, short(position)),
      write: async (descriptor, position) => nodeFileSystem.write(descriptor, short(position)),
    });
    const bytes = alignedBytes(600 * KIB + 1);
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await file.write(0, bytes);
    const found = new Uint8Array(bytes.byteLength + 50);
    expect(await file.read(0, found)).toBe(bytes.byteLength);
    expect(Buffer.compare(found.subarray(0, bytes.byteLength), bytes)).toBe(0);
    await file.close();
  });

  it('a write that makes no progress fails instead of going on for ever', async () => {
    const { fileSystem } = traced({ write: async () => 0 });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    await expect(file.write(0, new Uint8Array(10))).rejects.toMatchObject({ code: 'EIO' });
    await file.close();
  });

  it('reading stops at the end of the file', async () => {
    await writeFile(path, 'abc');
    const file = await DirectFile.open(path, constants.O_RDONLY);
    expect(await file.read(1, new Uint8Array(10))).toBe(2);
    expect(await file.read(3, new Uint8Array(10))).toBe(0);
    expect(await file.read(100, new Uint8Array(10))).toBe(0);
    expect(await file.read(0, new Uint8Array(0))).toBe(0);
    await file.close();
  });

  it('asks before every system call whether to go on', async () => {
    const { fileSystem, transfers } = traced({
      write: (descriptor, position) => nodeFileSystem.write(descriptor, { ...position, lengthBytes: 4096 }),
    });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    const stop = () => {
      if (transfers.length === 2) throw new Error('stopped');
    };
    await expect(file.write(0, alignedBytes(64 * KIB), stop)).rejects.toThrow('stopped');
    expect(transfers).toHaveLength(2);
    await file.close();
  });

  it('close waits for a write under way, closes every descriptor once, and refuses what comes later', async () => {
    const { promise: gate, resolve: finish } = Promise.withResolvers<void>();
    const { fileSystem, open } = traced({
      write: async (descriptor, position) => {
        await gate;
        return nodeFileSystem.write(descriptor, position);
      },
    });
    const file = await DirectFile.open(path, CREATE, { fileSystem });
    const bytes = alignedBytes(512 * KIB);
    const writing = file.write(0, bytes);
    const closing = file.close();
    expect(file.close()).toBe(closing);
    await expect(file.stat()).rejects.toMatchObject({ code: 'Aborted' });
    expect(open.size).toBeGreaterThan(0);
    finish();
    await writing;
    await closing;
    expect(open.size).toBe(0);
    expect(Buffer.compare(await readFile(path), bytes)).toBe(0);
  });

  it.each(['read', 'write'] as const)(
    'a %s of several system calls that has begun ends before the file closes',
    async (operation) => {
      const { promise: gate, resolve: finish } = Promise.withResolvers<void>();
      let calls = 0;
      const oneByte = async (descriptor: number, position: IoPosition) => {
        calls++;
        await gate;
        return nodeFileSystem[operation](descriptor, { ...position, lengthBytes: 1 });
      };
      await writeFile(path, 'abc');
      const { fileSystem, open } = traced({ [operation]: oneByte });
      const file = await DirectFile.open(path, constants.O_RDWR, { fileSystem });
      const buffer = Buffer.from('xyz');
      const working = file[operation](0, buffer);
      const closing = file.close();
      finish();
      await working;
      await closing;
      expect(calls).toBe(3);
      expect(open.size).toBe(0);
      expect(await readFile(path, 'utf8')).toBe(buffer.toString());
    },
  );

  it('truncate, chmod and mode act on the file', async () => {
    const file = await DirectFile.open(path, CREATE, { mode: 0o600 });
    expect(Number((await file.stat()).mode) & 0o777).toBe(0o600);
    await file.chmod(0o640);
    await file.truncate(12345);
    const stats = await file.stat();
    expect(Number(stats.mode) & 0o777).toBe(0o640);
    expect(stats.size).toBe(12345n);
    await file.close();
  });
});
