/**
 * Tests with real disks that are full or read-only. They are small tmpfs mounts, which need Linux
 * and permission to mount.
 */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { localFiles } from '@holdfast/local-files';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';

const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const MIB = 1024 * 1024;

function mount(directory: string, options: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], { stdio: 'pipe' });
}

/** Why mounting is impossible, or `null` if it works. */
function mountFault(): string | null {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-mount-'));
  try {
    mount(directory, 'size=64k');
    execFileSync('umount', [directory]);
    return null;
  } catch (error) {
    return String(error);
  } finally {
    rmdirSync(directory);
  }
}

const fault = mountFault();
const isRequired = (process.env.HOLDFAST_REQUIRE ?? '').split(',').includes('local');

// If disks cannot be mounted, the tests below are skipped. The tests of the writer then cover the
// same errors by simulation.
it('disks can be mounted, where the local store must be tested', () => {
  expect(isRequired ? fault : null).toBeNull();
});

describe.runIf(fault === null)('a full disk', () => {
  let disk: string;
  beforeEach(() => {
    disk = mkdtempSync(join(tmpdir(), 'holdfast-full-'));
    mount(disk, 'size=4m');
  });
  afterEach(() => {
    execFileSync('umount', [disk]);
    rmdirSync(disk);
  });

  it('create is StorageFull, leaves nothing, and works again when there is room', async () => {
    const store = await openLocalStore({ directory: disk });
    await store.create('kept', new Uint8Array(100));
    await store.create('large', new Uint8Array(3 * MIB));
    await expect(store.create('more', new Uint8Array(2 * MIB))).rejects.toEqual(
      code('StorageFull', 'object more'),
    );
    expect(readdirSync(join(disk, '.holdfast-tmp'))).toEqual([]);
    await expect(store.head('more')).rejects.toEqual(code('NotFound'));
    expect((await store.head('kept')).sizeBytes).toBe(100);
    await store.deleteMany(['large']);
    await store.create('more', new Uint8Array(2 * MIB));
    await store.close();
  });

  it('an upload is StorageFull, can be aborted, and gives its room back', async () => {
    const store = await openLocalStore({ directory: disk });
    const upload = await store.beginUpload('a', { partSizeBytes: MIB });
    const send = async () => {
      for (let index = 0; index < 6; index++) await upload.putPart(index, new Uint8Array(MIB), { crc32c: 0 });
    };
    await expect(send()).rejects.toEqual(code('StorageFull', 'object a'));
    await upload.abort();
    expect(readdirSync(join(disk, '.holdfast-tmp'))).toEqual([]);
    await store.create('b', new Uint8Array(3 * MIB));
    await store.close();
  });

  it('a restore is StorageFull, and discard leaves nothing', async () => {
    const target = await localFiles.openTarget(join(disk, 'ckpt'));
    const sink = await target.open({ name: 'a', sizeBytes: 6 * MIB });
    await expect(sink.writeAt(0, new Uint8Array(6 * MIB))).rejects.toEqual(code('StorageFull', '"a"'));
    await target.discard();
    expect(readdirSync(disk)).toEqual([]);
  });
});

describe.runIf(fault === null)('a read-only disk', () => {
  let disk: string;
  beforeAll(async () => {
    disk = mkdtempSync(join(tmpdir(), 'holdfast-read-only-'));
    mount(disk, 'size=4m');
    const store = await openLocalStore({ directory: disk });
    await store.create('catalog/1', new Uint8Array([1, 2, 3]));
    await store.close();
    execFileSync('mount', ['-o', 'remount,ro', disk]);
  });
  afterAll(() => {
    execFileSync('umount', [disk]);
    rmdirSync(disk);
  });

  it('can be read and listed, young objects included', async () => {
    const store = await openLocalStore({ directory: disk });
    for await (const page of store.list(''))
      expect(page.objects.map(({ key }) => key)).toEqual(['catalog/1']);
    expect([...(await store.get('catalog/1', { maxBytes: 3 })).bytes]).toEqual([1, 2, 3]);
    await store.close();
  });

  it('every write is ReadOnly', async () => {
    const store = await openLocalStore({ directory: disk });
    await expect(store.create('a', new Uint8Array(1))).rejects.toEqual(code('ReadOnly', 'object a'));
    await expect(store.beginUpload('a', { partSizeBytes: MIB })).rejects.toEqual(
      code('ReadOnly', 'object a'),
    );
    const [result] = await store.deleteMany(['catalog/1']);
    expect(result?.error).toEqual(code('ReadOnly', 'catalog/1'));
    expect(statSync(join(disk, 'catalog/1')).size).toBe(3);
    await store.close();
    const below = await openLocalStore({ directory: join(disk, 'new/store') });
    await expect(below.create('a', new Uint8Array(1))).rejects.toEqual(code('ReadOnly'));
    await below.close();
  });

  it('a restore into it is ReadOnly', async () => {
    await expect(localFiles.openTarget(join(disk, 'ckpt'))).rejects.toEqual(code('ReadOnly', `${disk}/ckpt`));
  });
});
