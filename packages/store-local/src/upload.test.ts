import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectStore, PartReceipt, Upload } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const PART = 8192;
const bytesOf = (value: number, lengthBytes = PART) => new Uint8Array(lengthBytes).fill(value);

let root: string;
let store: ObjectStore;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-upload-'));
});
afterEach(async () => {
  await store.close();
  rmSync(root, { recursive: true, force: true });
});

async function begin(overrides: Partial<FileSystem> = {}): Promise<Upload> {
  store = await openLocalStore(
    { directory: root },
    { fileSystem: { ...nodeFileSystem, ...overrides }, reserveBytes: 0 },
  );
  return store.beginUpload('v/a', { partSizeBytes: PART });
}

/** Two full parts and a short one. */
async function sendParts(upload: Upload): Promise<PartReceipt[]> {
  return Promise.all([
    upload.putPart(0, bytesOf(1), { crc32c: 11 }),
    upload.putPart(1, bytesOf(2), { crc32c: 12 }),
    upload.putPart(2, bytesOf(3, 100), { crc32c: 13 }),
  ]);
}
const SUMS = { sizeBytes: 2 * PART + 100, crc32c: 99 };
const WHOLE = Buffer.concat([bytesOf(1), bytesOf(2), bytesOf(3, 100)]);

const temporaryFiles = () => readdirSync(join(root, '.holdfast-tmp'));
const isVisible = () => existsSync(join(root, 'v/a'));

async function expectWhole(): Promise<void> {
  expect(Buffer.compare((await store.get('v/a', { maxBytes: 100_000 })).bytes, WHOLE)).toBe(0);
  expect(temporaryFiles()).toEqual([]);
}

describe('complete', () => {
  it('bytes, then name, then directories are durable before it resolves', async () => {
    const steps: string[] = [];
    const names = new Map<number, string>();
    const upload = await begin({
      open: async (path, flags, mode) => {
        const descriptor = await nodeFileSystem.open(path, flags, mode);
        names.set(descriptor, path.slice(root.length).replace(/[0-9a-f]{24}-\d+/, 'T') || '/');
        return descriptor;
      },
      write: (descriptor, position) => {
        steps.push('write');
        return nodeFileSystem.write(descriptor, position);
      },
      fdatasync: async (descriptor) => {
        steps.push(`fdatasync ${names.get(descriptor)}`);
      },
      fsync: async (descriptor) => {
        steps.push(`fsync ${names.get(descriptor)}`);
      },
      link: async (from, to) => {
        await nodeFileSystem.link(from, to);
        steps.push('link');
      },
    });
    const receipts = await sendParts(upload);
    expect(isVisible()).toBe(false);
    const info = await upload.complete(receipts, SUMS);
    const order = ['write', 'write', 'write', 'fdatasync /.holdfast-tmp/T', 'link', 'fsync /v', 'fsync /'];
    expect(steps.slice(0, order.length)).toEqual(order);
    expect(await store.head('v/a')).toEqual(info);
    await expectWhole();
  });

  it('a last part that was sent again and is shorter leaves no tail', async () => {
    const upload = await begin();
    const [first, second] = await sendParts(upload);
    await upload.putPart(2, bytesOf(4, 5000), { crc32c: 14 });
    const third = await upload.putPart(2, bytesOf(3, 100), { crc32c: 13 });
    await upload.complete([first!, second!, third], SUMS);
    await expectWhole();
  });

  it('parts that are beyond the ones named are cut off', async () => {
    const upload = await begin();
    const [first] = await sendParts(upload);
    const info = await upload.complete([first!], { sizeBytes: PART, crc32c: 11 });
    expect(info.sizeBytes).toBe(PART);
    expect((await store.get('v/a', { maxBytes: PART })).bytes).toEqual(bytesOf(1));
  });

  it.each([
    ['fdatasync', 'EIO', 'Unavailable'],
    ['fdatasync', 'ENOSPC', 'StorageFull'],
    ['ftruncate', 'EIO', 'Unavailable'],
  ] as const)(
    'after a failure of %s (%s: %s) the file is never trusted again',
    async (call, errno, expected) => {
      let failures = 1;
      const upload = await begin({
        [call]: (descriptor: number, sizeBytes: number) =>
          failures-- > 0 ? Promise.reject(errnoError(errno)) : nodeFileSystem[call](descriptor, sizeBytes),
      });
      const receipts = await sendParts(upload);
      // So that there is something to truncate.
      await upload.putPart(3, bytesOf(9, 1), { crc32c: 0 });
      await expect(upload.complete(receipts, SUMS)).rejects.toEqual(code(expected, 'object v/a'));
      expect([isVisible(), temporaryFiles()]).toEqual([false, []]);
      await expect(upload.complete(receipts, SUMS)).rejects.toEqual(code('NotFound'));
      await expect(upload.putPart(0, bytesOf(1), { crc32c: 1 })).rejects.toEqual(code('NotFound'));
      await upload.abort();
    },
  );

  it('after another program removed the file, the upload is NotFound: it must begin again', async () => {
    const upload = await begin({});
    const receipts = await sendParts(upload);
    for (const name of temporaryFiles()) rmSync(join(root, '.holdfast-tmp', name));
    await expect(upload.complete(receipts, SUMS)).rejects.toEqual(code('NotFound', 'its file is gone'));
    expect(isVisible()).toBe(false);
  });

  it('a name that cannot be made durable is temporary, and never acknowledged, however often it is completed', async () => {
    let failures = 1;
    const upload = await begin({
      fsync: (descriptor) =>
        failures-- > 0 ? Promise.reject(errnoError('EIO')) : nodeFileSystem.fsync(descriptor),
    });
    const receipts = await sendParts(upload);
    await expect(upload.complete(receipts, SUMS)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    expect(isVisible()).toBe(true);
    const lost = { code: 'Unavailable', status: 'exhausted' };
    await expect(upload.complete(receipts, SUMS)).rejects.toMatchObject(lost);
    await expect(store.head('v/a')).rejects.toMatchObject(lost);
  });

  it('a link that fails for now can be tried again, and no part can be changed in between', async () => {
    let failures = 1;
    const upload = await begin({
      link: (from, to) =>
        failures-- > 0 ? Promise.reject(errnoError('EIO')) : nodeFileSystem.link(from, to),
    });
    const receipts = await sendParts(upload);
    await expect(upload.complete(receipts, SUMS)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    await expect(upload.putPart(0, bytesOf(7), { crc32c: 7 })).rejects.toEqual(
      code('InvalidArgument', 'takes no more parts'),
    );
    await upload.complete(receipts, SUMS);
    await expectWhole();
  });

  it('a lost answer to link is a success', async () => {
    const upload = await begin({
      link: async (from, to) => {
        await nodeFileSystem.link(from, to);
        throw errnoError('EEXIST');
      },
    });
    await upload.complete(await sendParts(upload), SUMS);
    await expectWhole();
  });

  it('without hard links the name is a symbolic one, and completing again after a lost answer works', async () => {
    let isAway = true;
    const upload = await begin({
      link: () => Promise.reject(errnoError('EPERM')),
      symlink: async (target, path) => {
        await nodeFileSystem.symlink(target, path);
        if (isAway) throw errnoError('EIO');
      },
      readlink: (path) => (isAway ? Promise.reject(errnoError('EIO')) : nodeFileSystem.readlink(path)),
    });
    const receipts = await sendParts(upload);
    await expect(upload.complete(receipts, SUMS)).rejects.toMatchObject({ code: 'Unavailable' });
    isAway = false;
    await upload.complete(receipts, SUMS);
    await expectWhole();
  });

  it('another object of the key is AlreadyExists, and stays', async () => {
    const upload = await begin();
    await store.create('v/a', bytesOf(5, 3));
    await expect(upload.complete(await sendParts(upload), SUMS)).rejects.toEqual(code('AlreadyExists'));
    expect((await store.get('v/a', { maxBytes: 3 })).bytes).toEqual(bytesOf(5, 3));
    await upload.abort();
    expect(temporaryFiles()).toEqual([]);
  });

  it('a signal that fires before the name leaves the upload to be completed later', async () => {
    const controller = new AbortController();
    const upload = await begin({
      fdatasync: async () => controller.abort(),
    });
    const receipts = await sendParts(upload);
    const completing = upload.complete(receipts, { ...SUMS, signal: controller.signal });
    await expect(completing).rejects.toEqual(code('Aborted'));
    expect(isVisible()).toBe(false);
    await upload.complete(receipts, SUMS);
    await expectWhole();
  });

  const wrong: [string, (parts: PartReceipt[]) => PartReceipt[], Partial<typeof SUMS>, string][] = [
    ['a gap', ([a, , c]) => [a!, c!], {}, 'InvalidArgument'],
    ['another order', ([a, b, c]) => [b!, a!, c!], {}, 'InvalidArgument'],
    ['a part that was never sent', ([a, b, c]) => [a!, b!, c!, { ...c!, index: 3 }], {}, 'InvalidArgument'],
    [
      'a part that was sent otherwise since',
      ([a, b, c]) => [a!, b!, { ...c!, etag: '2-100-14' }],
      {},
      'InvalidArgument',
    ],
    ['another size', (parts) => parts, { sizeBytes: 2 * PART + 101 }, 'Corrupt'],
  ];
  it.each(wrong)('%s is refused, and nothing is created', async (_what, change, sums, expected) => {
    const upload = await begin();
    const receipts = await sendParts(upload);
    await expect(upload.complete(change(receipts), { ...SUMS, ...sums })).rejects.toEqual(code(expected));
    expect(isVisible()).toBe(false);
    await upload.complete(receipts, SUMS);
    await expectWhole();
  });

  it('a short part in the middle is refused', async () => {
    const upload = await begin();
    const receipts = [
      await upload.putPart(0, bytesOf(1, 10), { crc32c: 1 }),
      await upload.putPart(1, bytesOf(2), { crc32c: 2 }),
    ];
    const completing = upload.complete(receipts, { sizeBytes: PART + 10, crc32c: 0 });
    await expect(completing).rejects.toEqual(code('InvalidArgument', 'part 0 has 10 bytes'));
  });
});

describe('putPart', () => {
  it.each([
    ['ENOSPC', 'StorageFull'],
    ['EIO', 'Unavailable'],
  ])('%s is %s; the part does not count until it is sent again', async (errno, expected) => {
    let failures = 1;
    const upload = await begin({
      write: (descriptor, position) =>
        position.offsetBytes === PART && failures-- > 0
          ? Promise.reject(errnoError(errno))
          : nodeFileSystem.write(descriptor, position),
    });
    await upload.putPart(0, bytesOf(1), { crc32c: 11 });
    await expect(upload.putPart(1, bytesOf(2), { crc32c: 12 })).rejects.toEqual(
      code(expected, 'part 1 of object v/a'),
    );
    expect((await upload.listParts()).map(({ index }) => index)).toEqual([0]);
    await upload.complete(await sendParts(upload), SUMS);
    await expectWhole();
  });

  it('a part that fails while it is sent again does not count any more', async () => {
    let fails = false;
    const upload = await begin({
      write: (descriptor, position) =>
        fails ? Promise.reject(errnoError('EIO')) : nodeFileSystem.write(descriptor, position),
    });
    const receipts = await sendParts(upload);
    fails = true;
    await expect(upload.putPart(1, bytesOf(8), { crc32c: 8 })).rejects.toEqual(code('Unavailable'));
    await expect(upload.complete(receipts, SUMS)).rejects.toEqual(code('InvalidArgument', 'part 1'));
  });

  it.each([-1, 0.5, 100_000])('index %d is InvalidArgument', async (index) => {
    const upload = await begin();
    await expect(upload.putPart(index, bytesOf(1), { crc32c: 1 })).rejects.toEqual(code('InvalidArgument'));
  });

  it('a part that is too long is InvalidArgument', async () => {
    const upload = await begin();
    await expect(upload.putPart(0, bytesOf(1, PART + 1), { crc32c: 1 })).rejects.toEqual(
      code('InvalidArgument'),
    );
  });
});

describe('the end of an upload', () => {
  it('abort waits for a part under way, and frees the file', async () => {
    const { promise: gate, resolve } = Promise.withResolvers<void>();
    const open = new Set<number>();
    const upload = await begin({
      open: async (path, flags, mode) => {
        const descriptor = await nodeFileSystem.open(path, flags, mode);
        if (path.includes('.holdfast-tmp/')) open.add(descriptor);
        return descriptor;
      },
      close: async (descriptor) => {
        open.delete(descriptor);
        await nodeFileSystem.close(descriptor);
      },
      write: async (descriptor, position) => {
        await gate;
        expect(open).toContain(descriptor);
        return nodeFileSystem.write(descriptor, position);
      },
    });
    const part = upload.putPart(0, bytesOf(1), { crc32c: 1 });
    while (open.size === 0) await new Promise(setImmediate);
    const aborting = upload.abort();
    resolve();
    await Promise.all([part, aborting]);
    expect([open.size, temporaryFiles()]).toEqual([0, []]);
    await upload.abort();
  });

  it('closing the store frees uploads that were not ended', async () => {
    const upload = await begin();
    await upload.putPart(0, bytesOf(1), { crc32c: 1 });
    expect(temporaryFiles()).toHaveLength(1);
    await store.close();
    expect(temporaryFiles()).toEqual([]);
    await expect(upload.putPart(1, bytesOf(1), { crc32c: 1 })).rejects.toEqual(
      code('InvalidArgument', 'is closed'),
    );
    await upload.abort();
  });

  it('abort after complete takes nothing away', async () => {
    const upload = await begin();
    await upload.complete(await sendParts(upload), SUMS);
    await upload.abort();
    await expectWhole();
  });

  it('the token names the file, the key and the part size', async () => {
    const upload = await begin();
    const [file] = temporaryFiles();
    expect(JSON.parse(upload.token)).toEqual({ key: 'v/a', partSizeBytes: PART, file });
    await expect(store.resumeUpload(upload.token)).rejects.toEqual(code('Unsupported'));
  });

  it.each([0, 4095, 1024 ** 3 + 1, 5000.5])(
    'parts of %d bytes are InvalidArgument',
    async (partSizeBytes) => {
      await begin();
      await expect(store.beginUpload('v/b', { partSizeBytes })).rejects.toEqual(
        code('InvalidArgument', 'parts of'),
      );
      expect(temporaryFiles()).toHaveLength(1);
    },
  );
});
