import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-open-'));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

/** Permissions do not restrict root. */
async function asOrdinaryUser(work: () => Promise<void>): Promise<void> {
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65534);
  try {
    await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

/** A machine on which `parent` is mounted as the line says. */
function mounted(fields: string): FileSystem {
  const line = `27 1 254:0 / / rw - ext4 /dev/vda rw\n99 27 0:99 / ${parent} rw - ${fields} rw\n`;
  return { ...nodeFileSystem, readText: async () => line };
}

describe('openLocalStore', () => {
  it('a directory that is not there, with its parents, is an empty store, and stays away until the first write', async () => {
    const directory = join(parent, 'missing/parents/store');
    const store = await openLocalStore(`file://${directory}`);
    for await (const page of store.list('')) expect(page.objects).toEqual([]);
    await expect(store.get('a', { maxBytes: 1 })).rejects.toEqual(code('NotFound', 'object a'));
    await expect(store.head('a/b')).rejects.toEqual(code('NotFound'));
    await expect(store.readInto('a', 0, new Uint8Array(1))).rejects.toEqual(code('NotFound'));
    expect(await store.deleteMany(['a'])).toEqual([{ key: 'a' }]);
    expect(existsSync(join(parent, 'missing'))).toBe(false);
    await store.create('a', new Uint8Array(1));
    expect(existsSync(join(directory, 'a'))).toBe(true);
    await store.close();
  });

  it('tells its URI', async () => {
    expect((await openLocalStore(`file://${parent}?direct=off`)).uri).toBe(`file://${parent}?direct=off`);
    expect((await openLocalStore({ directory: parent })).uri).toBe(`file://${parent}`);
  });

  it('a path that is a file, or goes through one, is InvalidConfig', async () => {
    writeFileSync(join(parent, 'file'), '');
    for (const path of ['file', 'file/below/it']) {
      const opening = openLocalStore(`file://${parent}/${path}`);
      await expect(opening).rejects.toEqual(code('InvalidConfig', `${parent}/file is not a directory`));
    }
  });

  it('a symbolic link that leads nowhere is InvalidConfig, at the end of the path or in it', async () => {
    symlinkSync(join(parent, 'not-mounted'), join(parent, 'link'));
    for (const path of ['link', 'link/below/it']) {
      const opening = openLocalStore(`file://${parent}/${path}`);
      await expect(opening).rejects.toEqual(code('InvalidConfig', `${parent}/link is a symbolic link to`));
    }
  });

  it('a directory that may not be read is Denied', async () => {
    chmodSync(parent, 0o300);
    await asOrdinaryUser(async () => {
      await expect(openLocalStore({ directory: parent })).rejects.toEqual(code('Denied', parent));
    });
    chmodSync(parent, 0o700);
  });

  it('a directory that may not be written to is Denied at the first write, and can be read', async () => {
    const writer = await openLocalStore({ directory: parent });
    await writer.create('a', new Uint8Array(3));
    chmodSync(parent, 0o555);
    chmodSync(join(parent, '.holdfast-tmp'), 0o555);
    await asOrdinaryUser(async () => {
      const store = await openLocalStore({ directory: parent });
      await expect(store.create('b', new Uint8Array(1))).rejects.toEqual(code('Denied', 'object b'));
      await expect(store.beginUpload('b', { partSizeBytes: 4096 })).rejects.toEqual(
        code('Denied', 'object b'),
      );
      expect((await store.get('a', { maxBytes: 3 })).sizeBytes).toBe(3);
      const [result] = await store.deleteMany(['a']);
      expect(result?.error).toEqual(code('Denied', 'object a'));
      for await (const page of store.list('')) expect(page.objects.map(({ key }) => key)).toEqual(['a']);
      await store.close();
    });
    chmodSync(parent, 0o755);
  });

  it.each(['open', 'stat', 'realpath'] as const)('a directory that refuses %s is Denied', async (call) => {
    const fileSystem = { ...nodeFileSystem, [call]: () => Promise.reject(errnoError('EACCES')) };
    await expect(openLocalStore({ directory: parent }, { fileSystem })).rejects.toEqual(
      code('Denied', parent),
    );
  });

  it.runIf(process.platform === 'linux').each([
    ['fuse.s3fs s3fs', 's3fs', 's3://'],
    ['fuse mountpoint-s3', 'mountpoint-s3', 's3://'],
    ['fuse.gcsfuse my-bucket', 'gcsfuse', 'gs://'],
    ['fuse blobfuse2', 'blobfuse2', 'az://'],
  ])(
    'a bucket mounted as a directory (%s) is Unsupported, and told what to use instead',
    async (fields, program, scheme) => {
      mkdirSync(join(parent, 'run'));
      const fileSystem = mounted(fields);
      for (const directory of [parent, join(parent, 'run'), join(parent, 'not/there')]) {
        const opening = openLocalStore({ directory }, { fileSystem });
        await expect(opening).rejects.toEqual(code('Unsupported', `mounted by ${program}`));
        await expect(opening).rejects.toEqual(code('Unsupported', scheme));
      }
    },
  );

  it.runIf(process.platform === 'linux').each(['proc proc', 'sysfs sysfs', 'cgroup2 cgroup2'])(
    'a file system that keeps no files (%s) is Unsupported, also below it',
    async (fields) => {
      const fileSystem = mounted(fields);
      for (const directory of [parent, join(parent, 'not/there')]) {
        const opening = openLocalStore({ directory }, { fileSystem });
        await expect(opening).rejects.toEqual(code('Unsupported', 'which keeps no files'));
      }
    },
  );

  it.each(['nfs4 server:/x', 'fuse.juicefs JuiceFS:x', 'tmpfs none'])('%s is accepted', async (fields) => {
    await (await openLocalStore({ directory: parent }, { fileSystem: mounted(fields) })).close();
  });

  it('a machine that does not say what is mounted is trusted', async () => {
    const fileSystem = { ...nodeFileSystem, readText: () => Promise.reject(errnoError('ENOENT')) };
    await (await openLocalStore({ directory: parent }, { fileSystem })).close();
  });
});
