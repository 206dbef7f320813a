import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectStore } from '@holdfast/core/contract';
import {
  type FileSystem,
  linuxProcesses,
  nodeFileSystem,
  type ProcessIdentity,
  processText,
} from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';
import type { LocalComponents } from './store.ts';

let root: string;
const stores: ObjectStore[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-reserve-'));
});
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  rmSync(root, { recursive: true, force: true });
});

async function open(overrides: Partial<FileSystem> = {}, components: LocalComponents = {}) {
  const fileSystem = { ...nodeFileSystem, ...overrides };
  const store = await openLocalStore({ directory: root }, { crc32c: () => 0, fileSystem, ...components });
  stores.push(store);
  return store;
}

const BYTES = new Uint8Array([1]);
const reserve = () => join(root, '.holdfast-reserve');
const sizeOf = () => (existsSync(reserve()) ? statSync(reserve()).size : null);
const failing = (code: string) => () =>
  Promise.reject(Object.assign(new Error(code), { code, syscall: 'test' }));
describe('room that is kept back', () => {
  it('is removed by the last of several stores, even if another made it', async () => {
    const first = await open();
    await first.create('a', BYTES);
    const last = await open();
    await last.create('b', BYTES);
    await first.close();
    expect(sizeOf()).toBe(1024 * 1024);
    await last.deleteMany(['a', 'b']);
    await last.close();
    expect(sizeOf()).toBe(null);
  });

  it('is there after the first write, is given up once, and is kept back again when something was deleted', async () => {
    const store = await open();
    expect(await store.makeRoom?.()).toBe(false);
    await store.create('a', BYTES);
    await store.close();
    expect(sizeOf()).toBe(1024 * 1024);
    expect(statSync(reserve()).blocks).toBeGreaterThanOrEqual(2048);

    const collector = await open();
    expect([await collector.makeRoom?.(), await collector.makeRoom?.(), sizeOf()]).toEqual([
      true,
      false,
      null,
    ]);
    await collector.deleteMany(['a']);
    expect(sizeOf()).toBe(1024 * 1024);
    for await (const { objects } of collector.list('')) expect(objects).toEqual([]);
  });

  it('has files too, for a file system that has room for bytes and for no more files', async () => {
    const files = () => readdirSync(root).filter((name) => name === '.holdfast-reserved-files');
    const store = await open();
    await store.create('a', BYTES);
    await store.close();
    expect(readdirSync(join(root, '.holdfast-reserved-files'))).toHaveLength(8);
    const collector = await open();
    expect([await collector.makeRoom?.(), files()]).toEqual([true, []]);
    await collector.deleteMany(['a']);
    expect(files()).toHaveLength(1);
    await collector.close();
  });

  it('is made by the first write of a run, however slowly its directories are made', async () => {
    rmSync(root, { recursive: true });
    const mkdir = async (path: string) => {
      for (let turns = 0; turns < 100; turns += 1) await new Promise((resolve) => setImmediate(resolve));
      return nodeFileSystem.mkdir(path);
    };
    const store = await open({ mkdir });
    await store.create('a', BYTES);
    await store.close();
    expect(sizeOf()).toBe(1024 * 1024);
  });

  it('is given up by a process that is just making it, and is not made again meanwhile', async () => {
    const asked = new AbortController();
    const statfs = async (path: string) => {
      if (!asked.signal.aborted) await once(asked.signal, 'abort');
      return nodeFileSystem.statfs(path);
    };
    const store = await open({ statfs });
    await store.create('a', BYTES);
    const given = store.makeRoom?.();
    asked.abort();
    expect([await given, sizeOf()]).toEqual([true, null]);
    await store.create('b', BYTES);
    await store.close();
    expect(sizeOf()).toBe(null);
  });

  it('is gone when a store is closed that has no object any more', async () => {
    const store = await open();
    await store.create('doctor/a', BYTES);
    await store.deleteMany(['doctor/a']);
    await store.close();
    expect(readdirSync(root)).toEqual(['.holdfast-tmp']);
  });

  it('is made anew where a process was killed while it made it', async () => {
    writeFileSync(reserve(), 'short');
    const store = await open();
    await store.create('a', BYTES);
    await store.close();
    expect(sizeOf()).toBe(1024 * 1024);
  });

  it.each([
    ['there is too little room', { statfs: async () => ({ bavail: 5n, bsize: 1024n * 1024n }) as never }],
    ['nothing is known of the room', { statfs: failing('ENOSYS') }],
    ['it cannot be written', { write: failing('ENOSPC') }],
  ] as [string, Partial<FileSystem>][])('is not kept where %s; the store works', async (_, calls) => {
    const store = await open(calls);
    await store.create('a', BYTES).catch(() => undefined);
    await store.close();
    expect(sizeOf()).toBeNull();
  });

  it('is not looked for in the way of a link', async () => {
    writeFileSync(join(root, 'mine'), 'mine');
    symlinkSync('mine', reserve());
    const store = await open();
    await store.create('a', BYTES);
    await store.close();
    expect(statSync(join(root, 'mine')).size).toBe(4);
  });
});

describe('temporary files of processes that are gone', () => {
  const ID = '0123456789abcdef01234567';
  const put = (name: string, ageHours = 0) => {
    const path = join(root, '.holdfast-tmp', name);
    mkdirSync(join(root, '.holdfast-tmp'), { recursive: true });
    writeFileSync(path, '');
    const seconds = Date.now() / 1000 - ageHours * 3600;
    utimesSync(path, seconds, seconds);
  };
  const left = () => readdirSync(join(root, '.holdfast-tmp')).sort();

  it('go with the first write of the next; those of others, and of uploads, stay for a day', async () => {
    const self = (await linuxProcesses().self()) as ProcessIdentity;
    const gone = processText({ ...self, startTicks: `${self.startTicks}1` });
    const elsewhere = processText({
      ...self,
      startTicks: '1',
      bootId: '01234567-89ab-cdef-0123-456789abcdef',
    });
    const goes = [`${ID}-1.by-${gone}`, `${ID}-7.by-${elsewhere}`, `${ID}-8`];
    put(goes[0]!);
    put(goes[1]!, 25);
    put(goes[2]!, 25);
    const stays = [
      `${ID}-2.by-${processText(self)}`,
      `${ID}-3.by-${elsewhere}`,
      `${ID}-4`, // File of an upload that may be resumed.
      `${ID}-4.upload-${gone}`,
    ];
    for (const name of stays) put(name);
    put('of others', 100);
    const store = await open();
    await store.create('a', BYTES);
    await store.close();
    expect(left()).toEqual([...stays, 'of others'].sort());
  });

  it('a directory that a link has taken the place of is left alone', async () => {
    put(`${ID}-1`, 25);
    const outside = `${root}-outside`;
    mkdirSync(outside);
    writeFileSync(join(outside, `${ID}-1`), '');
    utimesSync(join(outside, `${ID}-1`), 1, 1);
    rmSync(join(root, '.holdfast-tmp'), { recursive: true });
    symlinkSync(outside, join(root, '.holdfast-tmp'));
    const store = await open();
    await store.create('a', BYTES);
    await store.close();
    expect(existsSync(join(outside, `${ID}-1`))).toBe(true);
    rmSync(outside, { recursive: true });
  });
});
