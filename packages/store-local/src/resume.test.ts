/** Uploads that another handle, or another process, resumes. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdtempSync, readdirSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { crc32c } from '@holdfast/core';
import type { ObjectStore, OpenUpload, PartReceipt, Upload } from '@holdfast/core/contract';
import { type FileSystem, linuxProcesses, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openLocalStore } from './index.ts';

const PART = 8192;
const bytesOf = (value: number, lengthBytes = PART) => new Uint8Array(lengthBytes).fill(value);
const WHOLE = Buffer.concat([bytesOf(1), bytesOf(2), bytesOf(3, 100)]);
const SUMS = { sizeBytes: WHOLE.byteLength, crc32c: crc32c(WHOLE) };
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const errnoError = (errno: string) =>
  Object.assign(new Error(`${errno}: made to fail`), { code: errno, syscall: 'test' });

let root: string;
const stores: ObjectStore[] = [];
const children: ChildProcess[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-resume-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await Promise.all(stores.splice(0).map((store) => store.close()));
  rmSync(root, { recursive: true, force: true });
});

async function open(overrides: Partial<FileSystem> = {}): Promise<ObjectStore> {
  const fileSystem = { ...nodeFileSystem, ...overrides };
  const store = await openLocalStore({ directory: root }, { crc32c, fileSystem });
  stores.push(store);
  return store;
}

function put(upload: Upload, index: number, bytes: Uint8Array): Promise<PartReceipt> {
  return upload.putPart(index, bytes, { crc32c: crc32c(bytes) });
}

async function sendParts(upload: Upload): Promise<PartReceipt[]> {
  return [
    await put(upload, 0, bytesOf(1)),
    await put(upload, 1, bytesOf(2)),
    await put(upload, 2, bytesOf(3, 100)),
  ];
}

async function uploadsOf(store: ObjectStore, prefix = ''): Promise<OpenUpload[]> {
  const uploads: OpenUpload[] = [];
  for await (const upload of store.listUploads?.(prefix) ?? []) uploads.push(upload);
  return uploads;
}

const temporaryFiles = () => readdirSync(join(root, '.holdfast-tmp'));
const pathOf = (name: string) => join(root, '.holdfast-tmp', name);
const dataFile = () => temporaryFiles().find((name) => !name.includes('upload')) ?? '';
const noteFile = () => temporaryFiles().find((name) => name.includes('upload')) ?? '';

async function expectWhole(store: ObjectStore): Promise<void> {
  expect(Buffer.compare((await store.get('v/a', { maxBytes: 100_000 })).bytes, WHOLE)).toBe(0);
  expect(temporaryFiles()).toEqual([]);
}

/**
 * Runs `work` in a separate process, with `store` and `put`. Resolves to the first line it prints.
 * The process lives until it is killed.
 */
async function inProcess(work: string): Promise<{ child: ChildProcess; line: string }> {
  const program = `
    const { openLocalStore } = await import(${JSON.stringify(new URL('./index.ts', import.meta.url).href)});
    const { crc32c } = await import('@holdfast/core');
    const store = await openLocalStore({ directory: ${JSON.stringify(root)} }, { crc32c });
    const put = (upload, index, bytes) => upload.putPart(index, bytes, { crc32c: crc32c(bytes) });
    ${work}
    setInterval(() => {}, 1000);`;
  const child = spawn(
    process.execPath,
    ['--conditions=holdfast-source', '--input-type=module', '--eval', program],
    { cwd: new URL('..', import.meta.url), stdio: ['ignore', 'pipe', 'inherit'] },
  );
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) return { child, line };
  throw new Error('the process ended without a word');
}

const BEGIN_AND_SEND_TWO = `
  const upload = await store.beginUpload('v/a', { partSizeBytes: ${PART} });
  await put(upload, 0, new Uint8Array(${PART}).fill(1));
  await put(upload, 1, new Uint8Array(${PART}).fill(9));
  console.log(upload.token);`;

async function killed(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

describe('a process that is gone', () => {
  test('leaves its parts, told with their checksums; what is other is sent again', async () => {
    const { child, line: token } = await inProcess(BEGIN_AND_SEND_TWO);
    await killed(child);
    const store = await open();
    expect(await uploadsOf(store, 'v/')).toEqual([
      { key: 'v/a', token, beganAtMs: expect.any(Number), sizeBytes: 2 * PART },
    ]);
    expect(await uploadsOf(store, 'w/')).toEqual([]);
    const upload = await store.resumeUpload(token);
    expect([upload.key, upload.partSizeBytes, upload.token]).toEqual(['v/a', PART, token]);
    const [first, second, ...more] = await upload.listParts();
    expect([first, second]).toMatchObject([
      { index: 0, sizeBytes: PART, crc32c: crc32c(bytesOf(1)) },
      { index: 1, sizeBytes: PART, crc32c: crc32c(bytesOf(9)) },
    ]);
    expect(more).toEqual([]);
    const rest = [await put(upload, 1, bytesOf(2)), await put(upload, 2, bytesOf(3, 100))];
    await upload.complete([first as PartReceipt, ...rest], SUMS);
    await expectWhole(store);
    await expect(store.resumeUpload(token)).rejects.toEqual(code('NotFound'));
  });

  test('while a process is stopped it may continue: its upload is not taken over', async () => {
    const { child, line: token } = await inProcess(BEGIN_AND_SEND_TWO);
    child.kill('SIGSTOP');
    const store = await open();
    await expect(store.resumeUpload(token)).rejects.toEqual(code('NotFound', `process ${child.pid}, which`));
    expect(await uploadsOf(store)).toHaveLength(1);
    await killed(child);
    await (await store.resumeUpload(token)).abort();
    expect(temporaryFiles()).toEqual([]);
  });

  test('its successor is the only one, and has a successor by the same token', async () => {
    const first = await inProcess(BEGIN_AND_SEND_TWO);
    await killed(first.child);
    const token = first.line;
    const second = await inProcess(`
      const upload = await store.resumeUpload(${JSON.stringify(token)});
      await put(upload, 1, new Uint8Array(${PART}).fill(2));
      console.log(JSON.stringify((await upload.listParts()).map(({ index }) => index)));`);
    expect(second.line).toBe('[0,1]');
    const store = await open();
    await expect(store.resumeUpload(token)).rejects.toEqual(code('NotFound', `process ${second.child.pid},`));
    await killed(second.child);
    const upload = await store.resumeUpload(token);
    const receipts = [...(await upload.listParts()), await put(upload, 2, bytesOf(3, 100))];
    await upload.complete(receipts, SUMS);
    await expectWhole(store);
  });
});

describe('in one process', () => {
  test('a store that is closed leaves its uploads to others', async () => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    const sent = await sendParts(begun);
    await first.close();
    await begun.abort();
    const store = await open();
    const upload = await store.resumeUpload(begun.token);
    const listed = await upload.listParts();
    expect(listed).toEqual(sent);
    await upload.complete(listed, SUMS);
    await expectWhole(store);
  });

  test('a takeover of an upload waits for calls in progress; then the old handle can do nothing', async () => {
    const { promise: gate, resolve } = Promise.withResolvers<void>();
    let waiting = false;
    const first = await open({
      fdatasync: async (descriptor) => {
        waiting = true;
        await gate;
        return nodeFileSystem.fdatasync(descriptor);
      },
    });
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    const receipts = await sendParts(begun);
    const completing = begun.complete(receipts, SUMS);
    while (!waiting) await new Promise(setImmediate);
    const store = await open();
    const taking = store.resumeUpload(begun.token);
    resolve();
    // It was completed before the takeover.
    await completing;
    await expect(taking).rejects.toEqual(code('NotFound', 'completed, aborted or expired'));
    await expectWhole(store);
    const other = await first.beginUpload('v/b', { partSizeBytes: PART });
    const resumed = await store.resumeUpload(other.token);
    for (const call of [put(other, 0, bytesOf(1)), other.listParts(), other.complete([], SUMS)])
      await expect(call).rejects.toEqual(code('NotFound', 'taken over'));
    await other.abort();
    expect(await resumed.listParts()).toEqual([]);
  });

  test('two that take an upload over at once: one has it in the end, and the other knows', async () => {
    const first = await open();
    const { token } = await first.beginUpload('v/a', { partSizeBytes: PART });
    await first.close();
    const both = await Promise.allSettled(
      [open(), open()].map(async (store) => (await store).resumeUpload(token)),
    );
    const calls = await Promise.allSettled(
      both.map(async (outcome) => {
        if (outcome.status === 'rejected') throw outcome.reason;
        return outcome.value.listParts();
      }),
    );
    expect(calls.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test('parts that were never sent are not told, nor is more than the file has of one', async () => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    await put(begun, 3, bytesOf(4));
    await put(begun, 1, bytesOf(2));
    await first.close();
    truncateSync(pathOf(dataFile()), 3 * PART + 10);
    const upload = await (await open()).resumeUpload(begun.token);
    await put(upload, 0, bytesOf(1));
    const parts = await upload.listParts();
    expect(parts.map(({ index, sizeBytes, crc32c: crc }) => [index, sizeBytes, crc])).toEqual([
      [0, PART, crc32c(bytesOf(1))],
      [1, PART, crc32c(bytesOf(2))],
      [3, 10, crc32c(bytesOf(4, 10))],
    ]);
    expect(await upload.listParts()).toEqual(parts);
  });

  test('what has become an object is not written to: its file has another name already', async () => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    await sendParts(begun);
    await first.close();
    linkSync(pathOf(dataFile()), join(root, 'object'));
    const store = await open();
    expect(await uploadsOf(store)).toEqual([]);
    await expect(store.resumeUpload(begun.token)).rejects.toEqual(code('NotFound', 'it is completed'));
    expect(temporaryFiles()).toEqual([]);
    expect((await store.head('object')).sizeBytes).toBe(WHOLE.byteLength);
  });
});

describe('where something is wrong', () => {
  test('an upload whose note cannot be written does not begin', async () => {
    const store = await open({
      open: (path, ...rest) =>
        path.includes('upload-') ? Promise.reject(errnoError('ENOSPC')) : nodeFileSystem.open(path, ...rest),
    });
    await expect(store.beginUpload('v/a', { partSizeBytes: PART })).rejects.toEqual(code('StorageFull'));
    expect(temporaryFiles()).toEqual([]);
  });

  test('a note that was not written to its end is not listed, and resumes all the same', async () => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    await first.close();
    for (const text of ['', '{"key":', '{"key":1}', 'null']) {
      writeFileSync(pathOf(noteFile()), text);
      expect(await uploadsOf(await open())).toEqual([]);
    }
    await (await (await open()).resumeUpload(begun.token)).abort();
    expect(temporaryFiles()).toEqual([]);
  });

  test.each([
    ['rename', 'EIO', 'Unavailable'],
    ['fstat', 'EIO', 'Unavailable'],
    ['readdir', 'EACCES', 'Denied'],
  ] as const)('a %s that fails (%s) is %s, and it can be tried again', async (call, errno, expected) => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    await sendParts(begun);
    await first.close();
    let failures = 1;
    const act = nodeFileSystem[call] as (...args: unknown[]) => Promise<never>;
    const store = await open({
      [call]: (...args: unknown[]) => (failures-- > 0 ? Promise.reject(errnoError(errno)) : act(...args)),
    });
    await expect(store.resumeUpload(begun.token)).rejects.toEqual(code(expected));
    const upload = await store.resumeUpload(begun.token);
    await upload.complete(await upload.listParts(), SUMS);
    await expectWhole(store);
  });

  test('a listing that fails says so', async () => {
    const store = await open({ readText: () => Promise.reject(errnoError('EACCES')) });
    await store.beginUpload('v/a', { partSizeBytes: PART });
    await expect(uploadsOf(store)).rejects.toEqual(code('Denied'));
  });

  test('a note whose owner cannot be identified is left alone', async () => {
    const first = await open();
    const begun = await first.beginUpload('v/a', { partSizeBytes: PART });
    await first.close();
    await nodeFileSystem.rename(pathOf(noteFile()), pathOf(noteFile().replace('free', 'somebody')));
    await expect((await open()).resumeUpload(begun.token)).rejects.toEqual(
      code('NotFound', 'may still be writing'),
    );
  });

  test.each([
    '',
    'null',
    '{}',
    '{"key":"v/a","partSizeBytes":8192,"file":"../x"}',
    '{"key":"../a","partSizeBytes":8192,"file":"0123456789abcdef01234567-1"}',
    '{"key":"v/a","partSizeBytes":1,"file":"0123456789abcdef01234567-1"}',
  ])('an invalid token is InvalidArgument: %j', async (token) => {
    await expect((await open()).resumeUpload(token)).rejects.toEqual(code('InvalidArgument'));
  });

  test('if processes cannot be identified, or checksums not computed, uploads end with their store', async () => {
    for (const components of [{}, { crc32c, processes: linuxProcesses('/nowhere') }]) {
      const store = await openLocalStore({ directory: root }, components);
      expect([store.capabilities.resumesUploads, store.listUploads]).toEqual([false, undefined]);
      const { token } = await store.beginUpload('v/a', { partSizeBytes: PART });
      expect(temporaryFiles()).toHaveLength(1);
      await expect(store.resumeUpload(token)).rejects.toEqual(code('Unsupported'));
      await store.close();
      expect(temporaryFiles()).toEqual([]);
    }
  });

  test('the sweep takes old notes whose file is gone, and no other', async () => {
    const first = await open();
    await first.beginUpload('v/a', { partSizeBytes: PART });
    await first.close();
    const [kept, lost] = [noteFile(), '0123456789abcdef01234567-1.upload-free'];
    writeFileSync(pathOf(lost), '{}');
    const long = new Date(Date.now() - 25 * 60 * 60 * 1000);
    for (const name of [kept, lost]) utimesSync(pathOf(name), long, long);
    const store = await open();
    await store.create('b', bytesOf(1));
    await store.close();
    expect(temporaryFiles()).toContain(kept);
    expect(temporaryFiles()).not.toContain(lost);
  });
});
