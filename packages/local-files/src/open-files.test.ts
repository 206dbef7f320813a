import { constants } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DirectFile } from './direct-file.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { IDLE_MS, OpenFiles } from './open-files.ts';

let directory: string;
let opened: string[];
let descriptors: Set<number>;
let gate: Promise<void> | null;
let roomBytes: number;
const fileSystem: FileSystem = {
  ...nodeFileSystem,
  open: async (path, flags) => {
    const descriptor = await nodeFileSystem.open(path, flags);
    opened.push(path.slice(directory.length + 1));
    descriptors.add(descriptor);
    return descriptor;
  },
  close: async (descriptor) => {
    descriptors.delete(descriptor);
    await nodeFileSystem.close(descriptor);
  },
  read: async (descriptor, position) => {
    await gate;
    return nodeFileSystem.read(descriptor, position);
  },
};

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-open-'));
  for (const name of ['a', 'b', 'c']) await writeFile(join(directory, name), name);
  opened = [];
  descriptors = new Set();
  gate = null;
  roomBytes = 1;
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(directory, { recursive: true });
});

function readFrom(files: OpenFiles, name: string, identity = '1'): Promise<string> {
  const path = join(directory, name);
  return files.use(
    { path, identity },
    () => DirectFile.open(path, constants.O_RDONLY, { fileSystem }),
    async (file) => {
      const bytes = new Uint8Array(roomBytes);
      const count = await file.read(0, bytes);
      return String.fromCharCode(...bytes.subarray(0, count));
    },
  );
}

test('a file is opened once for many reads, concurrent ones included', async () => {
  const files = new OpenFiles(2);
  expect(await Promise.all([readFrom(files, 'a'), readFrom(files, 'a')])).toEqual(['a', 'a']);
  await readFrom(files, 'a');
  expect(opened).toEqual(['a']);
  await files.close();
  expect(descriptors.size).toBe(0);
});

test('the one used longest ago is closed when there are too many', async () => {
  const files = new OpenFiles(2);
  for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) await readFrom(files, name);
  expect(opened).toEqual(['a', 'b', 'c', 'b']);
  await files.close();
  expect(descriptors.size).toBe(0);
});

test('another file of the same path is opened anew', async () => {
  const files = new OpenFiles(2);
  await readFrom(files, 'a', '1');
  await readFrom(files, 'a', '2');
  expect(opened).toEqual(['a', 'a']);
  await files.close();
  expect(descriptors.size).toBe(0);
});

test('a file that is pushed out or dropped while it is read is closed after the read', async () => {
  const files = new OpenFiles(1);
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  const reads = [readFrom(files, 'a'), readFrom(files, 'b'), readFrom(files, 'a')];
  files.drop(join(directory, 'a'));
  const closing = files.close();
  resolve();
  expect(await Promise.all(reads)).toEqual(['a', 'b', 'a']);
  await closing;
  expect(descriptors.size).toBe(0);
});

test('a file that is pushed out or dropped between two system calls of one read is read to its end', async () => {
  const files = new OpenFiles(1);
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  roomBytes = 10; // More than the file has: a second call finds its end.
  const reads = [readFrom(files, 'a'), readFrom(files, 'b')];
  files.drop(join(directory, 'b'));
  resolve();
  expect(await Promise.all(reads)).toEqual(['a', 'b']);
  await files.close();
  expect(descriptors.size).toBe(0);
});

test('a failure to open is reported to all who wait for it, and not remembered', async () => {
  const files = new OpenFiles(2);
  const attempts = [readFrom(files, 'late'), readFrom(files, 'late')];
  for (const attempt of attempts) await expect(attempt).rejects.toMatchObject({ code: 'ENOENT' });
  await writeFile(join(directory, 'late'), 'l');
  expect(await readFrom(files, 'late')).toBe('l');
  await files.close();
});

test('a file that no call uses is closed after a while, and opened again when it is needed', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const files = new OpenFiles(2);
  await Promise.all([readFrom(files, 'a'), readFrom(files, 'b')]);
  vi.advanceTimersByTime(IDLE_MS);
  await readFrom(files, 'b');
  vi.advanceTimersByTime(IDLE_MS);
  await vi.waitFor(() => expect(descriptors.size).toBe(1));
  expect(await readFrom(files, 'b')).toBe('b');
  vi.advanceTimersByTime(2 * IDLE_MS);
  await vi.waitFor(() => expect(descriptors.size).toBe(0));
  expect(vi.getTimerCount()).toBe(0);
  expect(await readFrom(files, 'a')).toBe('a');
  expect(opened).toEqual(['a', 'b', 'a']);
  await files.close();
  expect([descriptors.size, vi.getTimerCount()]).toEqual([0, 0]);
});
