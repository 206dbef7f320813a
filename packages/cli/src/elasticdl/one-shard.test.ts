/** `repartition` for one server, also with the option names of the design document. */

import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeShard, encodeShard } from '@holdfast/elasticdl';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callInProcess } from '../in-process.ts';

let directory: string;
let root: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-one-shard-'));
  root = join(directory, 'checkpoint_dir');
  await mkdir(join(root, 'version-100'), { recursive: true });
  await writeFile(join(root, 'version-100', 'variables-0-of-1.ckpt'), model());
});
afterAll(() => rm(directory, { recursive: true }));

/** One variable, and a table with the ids 0 to 5. */
function model(): Uint8Array {
  const floats = (length: number) => new Uint8Array(new Float32Array(length).fill(1).buffer);
  const ids = BigInt64Array.from([0n, 1n, 2n, 3n, 4n, 5n]);
  const encoded = encodeShard({
    version: 100,
    infos: [{ name: 'embedding', dim: 2, initializer: 'uniform', dtype: 'float32' }],
    dense: new Map([['bias:0', { dtype: 'float32', shape: [3], data: floats(3) }]]),
    tables: new Map([['embedding', { dtype: 'float32', dim: 2, ids, values: floats(12) }]]),
  });
  return Buffer.concat([...encoded.chunks()]);
}

async function repartition(...args: string[]) {
  return callInProcess(['elasticdl', 'repartition', ...args]);
}

async function refused(code: number, words: string, ...args: string[]) {
  const ended = await repartition(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}

const newOut = () => join(directory, `out-${count++}`);
const shard = (index: number, of: number) => `variables-${index}-of-${of}.ckpt`;

describe('--index', () => {
  test("writes one server's shard, byte for byte that of all, and nothing else", async () => {
    const [all, one] = [newOut(), newOut()];
    await repartition(root, all, '--to', '3');
    const { code, stdout } = await repartition(root, one, '--to', '3', '--index', '1');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^repartitioned {2,}version 100 {2,}1 → 3 shards, only 1 {2,}/);
    expect(await readdir(one)).toEqual(['version-100']);
    expect(await readdir(join(one, 'version-100'))).toEqual([shard(1, 3)]);
    const bytes = (out: string) => readFile(join(out, 'version-100', shard(1, 3)));
    expect(await bytes(one)).toEqual(await bytes(all));
  });

  test('each server into one directory makes a whole version; one that is there is replaced only when told', async () => {
    const out = newOut();
    for (const index of ['2', '0']) await repartition(root, out, '--to', '3', '--index', index);
    const last = await repartition(root, out, '--to', '3', '--index', '1', '--json');
    expect(JSON.parse(last.stdout)).toMatchObject({
      directory: join(out, 'version-100'),
      index: 1,
      fromCount: 1,
      files: [{ name: shard(1, 3) }],
    });
    expect((await repartition(out, newOut(), '--to', '1')).code).toBe(0);
    const again = [root, out, '--to', '3', '--index', '1'];
    await refused(7, 'exists', ...again);
    await truncate(join(out, 'version-100', shard(1, 3)), 3);
    expect((await repartition(...again, '--replace')).code).toBe(0);
    expect((await readdir(join(out, 'version-100'))).sort()).toEqual([0, 1, 2].map((at) => shard(at, 3)));
    expect((await repartition(out, newOut(), '--to', '1')).code).toBe(0);
  });

  test('a shard of another division in the same place is refused, also with --replace', async () => {
    const out = newOut();
    await repartition(root, out, '--to', '2');
    const words = `holds ${shard(0, 2)}, which cannot be combined with ${shard(1, 3)}`;
    await refused(7, words, root, out, '--to', '3', '--index', '1', '--replace');
    const renamed = [root, out, '--to', '2', '--index', '0'];
    await writeFile(join(out, 'version-100', 'variables-0-of-2.chkpt'), '');
    await refused(7, 'variables-0-of-2.chkpt, which cannot be combined with', ...renamed, '--replace');
    expect((await readdir(join(out, 'version-100'))).length).toBe(3);
  });

  test('the directory that is read is refused, and its files stay', async () => {
    const out = newOut();
    await repartition(root, out, '--to', '2');
    const file = join(out, 'version-100', shard(0, 2));
    const before = await readFile(file);
    const options = ['--to', '2', '--index', '0', '--replace'];
    for (const from of [out, join(out, 'version-100')])
      await refused(2, 'that the other shards of', from, out, ...options);
    expect(await readFile(file)).toEqual(before);
  });

  test('what cannot be is refused with 2, and leaves nothing behind', async () => {
    const out = newOut();
    await refused(2, '--index 3 is not one of 3 servers', root, out, '--to', '3', '--index', '3');
    await refused(2, '--index: "-1" is not a whole number', root, out, '--to', '3', '--index=-1');
    await refused(2, 'elasticdl repartition needs --to', root, out, '--index', '0');
    const everything = ['--replace=everything', '--apply'];
    await refused(2, '--index writes one file', ...[root, out, '--to', '3', '--index', '0'], ...everything);
    expect(await readdir(out).catch(() => [])).toEqual([]);
  });
});

describe('--names', () => {
  test('document: the names of the design document, which are read back', async () => {
    const out = newOut();
    const { code, stdout } = await repartition(root, out, '--to', '2', '--names', 'document');
    expect([code, stdout.trimEnd().endsWith(join(out, 'version_100'))]).toEqual([0, true]);
    const names = ['variables-0-of-2.chkpt', 'variables-1-of-2.chkpt'];
    expect((await readdir(join(out, 'version_100'))).sort()).toEqual(names);
    const back = newOut();
    expect((await repartition(out, back, '--to', '1')).code).toBe(0);
    const read = await decodeShard(await readFile(join(back, 'version-100', shard(0, 1))));
    expect([read.version, read.tables.get('embedding')?.ids.toSorted()]).toEqual([
      100,
      BigInt64Array.from([0n, 1n, 2n, 3n, 4n, 5n]),
    ]);
  });

  test('with --index too; another word is refused with 2', async () => {
    const out = newOut();
    await repartition(root, out, '--to', '2', '--index', '1', '--names', 'document');
    expect(await readdir(join(out, 'version_100'))).toEqual(['variables-1-of-2.chkpt']);
    await refused(
      2,
      '--names: "seed" is not one of code, document',
      root,
      newOut(),
      '--to',
      '2',
      '--names',
      'seed',
    );
  });
});
