/** Output and exit status of the commands that read and write ElasticDL's files. */

import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { decodeShard, type EmbeddingRows, encodeShard, type ModelShard } from '@holdfast/elasticdl';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMANDS } from '../commands/index.ts';
import { asJson, cli } from '../in-process.ts';

let directory: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-elasticdl-'));
});
afterAll(() => rm(directory, { recursive: true }));

const newUri = () => `memory://elasticdl-${count++}`;

/** Expects this exit status, these words in the error, and no result. */
async function refused(code: number, words: string, ...args: string[]) {
  const ended = await cli(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}

const bytesOf = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);

/**
 * Shard `index` of `count`: the table rows whose ids have this remainder, and a variable in the
 * first shard.
 */
function shardOf(index: number, count: number, version = 100, dim = 2): Uint8Array {
  const ids = [0, 1, 2, 3, 4, 5].filter((id) => id % count === index);
  const shard: ModelShard = {
    version,
    infos: [{ name: 'embedding', dim, initializer: 'uniform', dtype: 'float32' }],
    dense: new Map(
      index > 0 ? [] : [['bias:0', { dtype: 'float32', shape: [3], data: bytesOf([1, 2, 3]) }] as const],
    ),
    tables: new Map([
      [
        'embedding',
        {
          dtype: 'float32',
          dim,
          ids: BigInt64Array.from(ids.map(BigInt)),
          values: new Uint8Array(new Float32Array(ids.length * dim).fill(version).buffer),
        },
      ],
    ]),
  };
  return Buffer.concat([...encodeShard(shard).chunks()]);
}

/** A new directory with these versions as ElasticDL writes them, each in two shards. */
async function elasticdlDirectory(...versions: number[]): Promise<string> {
  const root = await mkdtemp(join(directory, 'versions-'));
  for (const version of versions) {
    const folder = join(root, `version-${version}`);
    await mkdir(folder);
    for (const index of [0, 1])
      await writeFile(join(folder, `variables-${index}-of-2.ckpt`), shardOf(index, 2, version));
  }
  return root;
}

test('the examples of --help work, one after the other', async () => {
  const root = await elasticdlDirectory(95, 100);
  const here = await mkdtemp(join(directory, 'here-'));
  await rename(root, join(here, 'checkpoint_dir'));
  /** Expands a word as a shell in that directory would. */
  const wordOf = (text: string) => {
    const word = text.replaceAll('"', '').replace('$PWD', here);
    return word.startsWith('./') || /^\w+\.safetensors$/.test(word) ? join(here, word) : word;
  };
  const named = (name: string) => COMMANDS.find((command) => command.name === `elasticdl ${name}`);
  for (const name of ['import', 'inspect', 'repartition', 'export', 'best']) {
    for (const example of named(name)?.examples ?? []) {
      const { code, stderr } = await cli(...example.split(' ').slice(1).map(wordOf));
      expect([code, stderr.includes('holdfast:')], example).toEqual([0, false]);
    }
  }
  const kept =
    'best.json best.safetensors checkpoint_dir checkpoint_dir_8 ckpt dense.json dense.safetensors for_server_2 history';
  const names = `${kept} model.json model.safetensors run`;
  expect((await readdir(here)).sort().join(' ')).toBe(names);
});

describe('inspect', () => {
  const inspect = ['elasticdl', 'inspect'] as const;

  test('a version: form, number, shards, tables and variables', async () => {
    const where = join(await elasticdlDirectory(100), 'version-100');
    expect(await cli(...inspect, where)).toEqual({
      code: 0,
      stderr: '',
      stdout: `checkpoint ${where}
form       S7, ElasticDL from 21 February 2020 on
version    100
size       210 B in 2 files
holds      1 variable · 1 table · 6 rows

SHARD                   VERSION   VARIABLES   ROWS    SIZE
variables-0-of-2.ckpt       100           1      3   122 B
variables-1-of-2.ckpt       100           0      3    88 B

TABLE       DTYPE     DIM   ROWS   SIZE   INITIALIZER
embedding   float32     2      6   48 B   uniform

VARIABLE   DTYPE     SHAPE   SIZE
bias:0     float32   [3]     12 B
`,
    });
  });

  test('one shard of it, which need not be whole with others', async () => {
    const file = join(await elasticdlDirectory(100), 'version-100', 'variables-1-of-2.ckpt');
    for (const given of [file, pathToFileURL(file).href]) {
      const { code, stdout } = await cli(...inspect, given);
      expect(code).toBe(0);
      expect(stdout).toContain(`checkpoint ${file}\n`);
      expect(stdout).toMatch(/^size {2,}88 B in 1 file$/m);
      expect(stdout).toMatch(/^embedding .* 3 {2,}24 B {2,}uniform$/m);
    }
  });

  test('JSON has the documented names', async () => {
    const root = await elasticdlDirectory(100);
    const shard = { form: 'S7', numbering: 'tensorflow', version: 100, rowCount: 3 };
    const table = { name: 'embedding', dtype: 'float32', dim: 2, initializer: 'uniform' };
    expect(await asJson(...inspect, root)).toEqual({
      where: join(root, 'version-100'),
      version: 100,
      writers: [],
      suspicions: [],
      shards: [
        { ...shard, name: 'variables-0-of-2.ckpt', sizeBytes: 122, variableCount: 1 },
        { ...shard, name: 'variables-1-of-2.ckpt', sizeBytes: 88, variableCount: 0 },
      ],
      modelVersion: 100,
      tables: [{ ...table, rowCount: 6, rowCounts: [3, 3], sizeBytes: 48 }],
      variables: [{ name: 'bias:0', dtype: 'float32', shape: [3], sizeBytes: 12, file: 0 }],
    });
  });

  test('the newest complete version by number, or the one that is requested', async () => {
    const root = await elasticdlDirectory(95, 100, 105);
    await rm(join(root, 'version-105', 'variables-0-of-2.ckpt'));
    const newest = await cli(...inspect, root);
    expect(newest.stdout).toContain(`checkpoint ${join(root, 'version-100')}\n`);
    expect(newest.stderr).toBe(`skipped: ${join(root, 'version-105')} lacks shard 0 of 2; it has 1\n`);
    expect((await asJson(...inspect, root, '--version', '95')).version).toBe(95);
    await refused(5, 'lacks shard 0 of 2; it has 1', ...inspect, root, '--version', '105');
    await refused(6, 'has no version 7; it has version-105', ...inspect, root, '--version', '7');
    const one = join(root, 'version-95');
    await refused(6, 'is version 95, and --version asks for 7', ...inspect, one, '--version', '7');
  });

  test('a run, by its URI or its path, as well as what ElasticDL has put into a store', async () => {
    const root = await elasticdlDirectory(100, 105);
    const run = join(directory, `run-${count++}`);
    const uri = pathToFileURL(run).href;
    await cli('elasticdl', 'import', root, uri, '--all');
    for (const given of [uri, run]) {
      const { code, stdout } = await cli(...inspect, given);
      expect([code, stdout.split('\n')[0]]).toEqual([0, `checkpoint version 105 of ${uri}`]);
    }
    expect((await asJson(...inspect, uri, '--version', '100')).modelVersion).toBe(100);
    await refused(6, `no version 7 in ${uri}`, ...inspect, uri, '--version', '7');
    const { stdout } = await cli(...inspect, pathToFileURL(root).href);
    expect(stdout).toContain(`checkpoint ${join(root, 'version-105')}\n`);
  });

  test('shards that are no one checkpoint are shown, and it ends with 5', async () => {
    const root = await elasticdlDirectory(100);
    await writeFile(join(root, 'version-100', 'variables-1-of-2.ckpt'), shardOf(1, 2, 105));
    const { code, stdout, stderr } = await cli(...inspect, root);
    expect(code).toBe(5);
    expect(stdout).toMatch(/^version {2,}100, 105$/m);
    expect(stdout).toMatch(/^variables-1-of-2\.ckpt {2,}105 /m);
    expect(stderr).toContain('versions in model shards are not consistent');
    const json = await asJson(...inspect, root);
    expect(json).toMatchObject({ modelVersion: null, tables: null, variables: null, error: { exitCode: 5 } });
    expect(json.shards.map(({ version }: { version: number }) => version)).toEqual([100, 105]);
  });

  test('a name that tells another version than the files is shown beside it', async () => {
    const root = await elasticdlDirectory(100);
    await rename(join(root, 'version-100'), join(root, 'version-7'));
    expect((await cli(...inspect, root)).stdout).toMatch(/^version {2,}100 in the files, 7 by the name$/m);
  });

  test('a type that has two meanings: whose numbers they are is asked for', async () => {
    const root = await mkdtemp(join(directory, 'numbering-'));
    // "w", with 2 elements of 2 bytes each, of type 5.
    const tensor = '0a0177' + '120102' + '1a04003c003c' + '2805';
    await writeFile(join(root, 'variables-0-of-1.ckpt'), Buffer.from(`0803120e${tensor}`, 'hex'));
    await refused(2, 'pass --numbering elasticdl or --numbering tensorflow', ...inspect, root);
    const dtypeBy = async (whose: string) =>
      (await asJson(...inspect, root, '--numbering', whose)).variables[0].dtype;
    expect([await dtypeBy('elasticdl'), await dtypeBy('tensorflow')]).toEqual(['float16', 'int16']);
  });

  test('a file that is cut off, nothing there, nothing of ElasticDL, no operand: each says so', async () => {
    const root = await elasticdlDirectory(100);
    const file = join(root, 'version-100', 'variables-0-of-2.ckpt');
    await truncate(file, 60);
    await refused(5, 'variables-0-of-2.ckpt', ...inspect, file);
    await refused(6, `there is nothing at ${root}x`, ...inspect, `${root}x`);
    await refused(6, `there is nothing at ${root}/a.ckpt`, ...inspect, `${root}/a.ckpt`);
    const empty = await mkdtemp(join(directory, 'empty-'));
    await refused(6, `${empty} holds neither a run nor a checkpoint of ElasticDL`, ...inspect, empty);
    await refused(6, 'holds no shard of ElasticDL', ...inspect, newUri());
    await refused(2, 'the scheme of the URI is unknown', ...inspect, 'ftp://host/a');
    await refused(2, 'elasticdl inspect needs URI', ...inspect);
    await refused(2, 'is not one of elasticdl, tensorflow', ...inspect, root, '--numbering', 'go');
  });
});

describe('repartition', () => {
  const repartition = ['elasticdl', 'repartition'] as const;

  test('writes the version for another number of servers, whole or not at all', async () => {
    const root = await elasticdlDirectory(100);
    const out = join(directory, `out-${count++}`);
    const { code, stdout, stderr } = await cli(...repartition, root, out, '--to', '3');
    expect(code).toBe(0);
    const where = join(out, 'version-100');
    expect(stderr).toBe(`${join(root, 'version-100')} → ${where}   2 → 3 shards   60 B\n`);
    expect(stdout).toMatch(
      /^repartitioned {2,}version 100 {2,}2 → 3 shards {2,}\d+ B {2,}[\d.]+ m?s {2,}in /,
    );
    expect(stdout.endsWith(`   in ${where}\n`)).toBe(true);
    expect((await readdir(where)).sort()).toEqual([0, 1, 2].map((index) => `variables-${index}-of-3.ckpt`));
    const [table] = (await asJson('elasticdl', 'inspect', out)).tables;
    expect(table.rowCounts).toEqual([2, 2, 2]);
    await refused(7, `${where} exists and is not empty`, ...repartition, root, out, '--to', '2');
    expect((await readdir(where)).length).toBe(3);
    expect(await asJson(...repartition, root, out, '--to', '1', '--form', 'S4', '--replace')).toMatchObject({
      from: join(root, 'version-100'),
      directory: where,
      version: 100,
      fromCount: 2,
      files: [{ name: 'variables-0-of-1.ckpt', sizeBytes: expect.any(Number) }],
      sizeBytes: expect.any(Number),
      durationMs: expect.any(Number),
    });
    expect(await readdir(where)).toEqual(['variables-0-of-1.ckpt']);
    expect((await asJson('elasticdl', 'inspect', out)).shards[0].form).toBe('S4');
  });

  test('out of a run, and out of what it has written', async () => {
    const root = await elasticdlDirectory(100);
    const uri = newUri();
    await cli('elasticdl', 'import', root, uri);
    const [three, two] = [join(directory, `three-${count++}`), join(directory, `two-${count++}`)];
    await cli(...repartition, uri, three, '--to', '3');
    await cli(...repartition, three, two, '--to', '2');
    const name = join('version-100', 'variables-1-of-2.ckpt');
    const ids = (await decodeShard(await readFile(join(two, name)))).tables.get('embedding')?.ids;
    expect([...(ids ?? [])].sort()).toEqual([1n, 3n, 5n]);
  });

  test('a directory whose name has no version takes that of its files', async () => {
    const root = await elasticdlDirectory(100);
    await rename(join(root, 'version-100'), join(root, 'newest'));
    const out = join(directory, `out-${count++}`);
    expect((await asJson(...repartition, join(root, 'newest'), out, '--to', '1')).version).toBe(100);
    expect(await readdir(out)).toEqual(['version-100']);
  });

  test('what is refused leaves nothing behind', async () => {
    const root = await elasticdlDirectory(100);
    const out = join(directory, `out-${count++}`);
    await refused(2, 'elasticdl repartition needs --to', ...repartition, root, out);
    await refused(2, 'elasticdl repartition needs FROM', ...repartition);
    await refused(2, '--to: "0" is not a whole number from 1', ...repartition, root, out, '--to', '0');
    const wide = await mkdtemp(join(directory, 'wide-'));
    await writeFile(join(wide, 'variables-0-of-1.ckpt'), shardOf(0, 1, 1, 500_000));
    await refused(2, 'pass --buffer ', ...repartition, wide, out, '--to', '1', '--buffer', '16MiB');
    await refused(2, '"S5" is not one of S4, S7', ...repartition, root, out, '--to', '1', '--form', 'S5');
    const file = join(root, 'version-100', 'variables-0-of-2.ckpt');
    await refused(2, 'is one shard of 2; open the directory', ...repartition, file, out, '--to', '1');
    await truncate(file, 100);
    await refused(5, 'nothing was written', ...repartition, root, out, '--to', '1');
    expect(await readdir(out).catch(() => [])).toEqual([]);
  });
});

describe('export', () => {
  const exporting = ['elasticdl', 'export'] as const;

  test('one safetensors file and a JSON beside it, whole or not at all', async () => {
    const root = await elasticdlDirectory(100);
    const out = join(directory, `model-${count++}.safetensors`);
    const { code, stdout, stderr } = await cli(...exporting, root, out);
    expect([code, stderr]).toEqual([0, `${join(root, 'version-100')} → ${out}   2 shards   60 B\n`]);
    expect(stdout.replace(/[\d.]+ m?s/, 'TIME')).toBe(
      `exported  version 100   ${(await stat(out)).size} B in 3 tensors   TIME   in ${out}\n`,
    );
    await refused(7, 'exists', ...exporting, root, out);
    const json = await asJson(...exporting, root, out, '--replace', '--dense', 'embedding=8');
    expect(json).toEqual({
      from: join(root, 'version-100'),
      path: out,
      jsonPath: out.replace(/safetensors$/, 'json'),
      version: 100,
      writers: [],
      suspicions: [],
      modelVersion: 100,
      sizeBytes: (await stat(out)).size,
      tensors: [
        { name: 'bias:0', dtype: 'F32', shape: [3] },
        { name: 'embedding', dtype: 'F32', shape: [8, 2] },
      ],
      dropped: [],
      durationMs: expect.any(Number),
    });
    expect(JSON.parse(await readFile(json.jsonPath, 'utf8')).tables[0]).toMatchObject({ stored: 'dense' });
  });

  test('every table dense, with as many rows as the highest id asks for', async () => {
    const root = await elasticdlDirectory(100);
    const out = join(directory, `model-${count++}.safetensors`);
    const { tensors } = await asJson(...exporting, root, out, '--dense-all', 'highest');
    expect(tensors).toContainEqual({ name: 'embedding', dtype: 'F32', shape: [6, 2] });
  });

  test('slots of an optimizer are left out, said, and kept on demand', async () => {
    const root = await mkdtemp(join(directory, 'slots-'));
    const shard = await decodeShard(shardOf(0, 1));
    const rows = shard.tables.get('embedding') as EmbeddingRows;
    const slot = { name: 'embedding-m', dim: 2, initializer: 'zeros', dtype: 'float32' } as const;
    const withSlot = {
      ...shard,
      infos: [...shard.infos, slot],
      tables: new Map([...shard.tables, [slot.name, rows]]),
    };
    await writeFile(join(root, 'variables-0-of-1.ckpt'), Buffer.concat([...encodeShard(withSlot).chunks()]));
    const out = join(directory, `model-${count++}.safetensors`);
    expect((await cli(...exporting, root, out)).stdout).toContain(
      '\n  left out 1 table of an optimizer: embedding-m (--keep-slots keeps them)\n',
    );
    expect((await asJson(...exporting, root, out, '--replace')).dropped).toEqual(['embedding-m']);
    expect((await asJson(...exporting, root, out, '--replace', '--keep-slots')).dropped).toEqual([]);
  });

  test('what is refused leaves nothing behind', async () => {
    const root = await elasticdlDirectory(100);
    const out = join(directory, `model-${count++}.safetensors`);
    await refused(2, 'table "embedding" has id', ...exporting, root, out, '--dense', 'embedding=2');
    await refused(2, '--dense TABLE=ROWS', ...exporting, root, out, '--dense', 'other=2');
    await refused(
      2,
      '--dense: "embedding" is not of the form TABLE=ROWS',
      ...exporting,
      root,
      out,
      '--dense',
      'embedding',
    );
    await refused(
      2,
      '--dense: "a" is given twice',
      ...exporting,
      root,
      out,
      '--dense',
      'a=1',
      '--dense',
      'a=2',
    );
    await refused(2, '--dense-all: "all" is neither', ...exporting, root, out, '--dense-all', 'all');
    await refused(2, 'does not end in .safetensors', ...exporting, root, `${out}.bin`);
    await refused(2, 'elasticdl export needs OUT.safetensors', ...exporting, root);
    await rm(join(root, 'version-100', 'variables-1-of-2.ckpt'));
    await refused(5, 'none of 1 version in', ...exporting, root, out);
    await refused(5, 'nothing was written', ...exporting, join(root, 'version-100'), out);
    expect(await stat(out).catch(() => null)).toBeNull();
  });
});

describe('import', () => {
  const importing = ['elasticdl', 'import'] as const;

  test('the newest whole version, byte for byte; repeated, nothing is sent', async () => {
    const root = await elasticdlDirectory(100, 105, 110);
    await rm(join(root, 'version-110', 'variables-1-of-2.ckpt'));
    const uri = newUri();
    const { code, stdout, stderr } = await cli(...importing, root, uri, '--metric', 'auc=0.75');
    expect([code, stderr]).toEqual([0, `version 105 → ${uri}\n`]);
    expect(stdout).toMatch(/^skipped {2,}.*version-110 lacks shard 1 of 2; it has 0\n/);
    expect(stdout).toMatch(/\nimported {2,}version 105 {2,}210 B in 2 files {2,}[\d.]+ m?s\n$/);
    const restored = join(directory, `restored-${count++}`);
    await cli('restore', uri, restored);
    expect(await readFile(join(restored, 'variables-1-of-2.ckpt'))).toEqual(shardOf(1, 2, 105));
    expect((await asJson('latest', uri)).metrics).toEqual({ auc: 0.75 });
    expect((await cli(...importing, root, uri, '--metric', 'auc=0.75')).stdout).toMatch(
      /\nimported {2,}version 105 {2,}210 B in 2 files {2,}already there {2,}[\d.]+ m?s\n$/,
    );
  });

  test('no whole version: why stands in the message and in JSON; another is advised only where one is whole', async () => {
    const root = await elasticdlDirectory(1, 2, 3, 4, 5);
    const reasonOf = (version: number) => `${join(root, `version-${version}`)} lacks shard 1 of 2; it has 0`;
    const lose = (version: number) => rm(join(root, `version-${version}`, 'variables-1-of-2.ckpt'));
    for (const version of [2, 3, 4, 5]) await lose(version);
    const advice = 'version 1 is complete: pass --version 1 to take it';
    await refused(5, advice, ...importing, root, newUri(), '--version', '4');
    await lose(1);
    await refused(5, `${reasonOf(3)}; and 2 more\n`, ...importing, root, newUri());
    const { stdout } = await cli(...importing, root, newUri(), '--json');
    expect(JSON.parse(stdout).error.context).toMatchObject({ wholeVersion: null, skipped: { length: 5 } });
    const only = await elasticdlDirectory(1);
    await rm(join(only, 'version-1', 'variables-1-of-2.ckpt'));
    const words = `is complete: ${join(only, 'version-1')} lacks shard 1 of 2; it has 0\n`;
    for (const from of [[only], [join(only, 'version-1')], [only, '--version', '1']])
      await refused(5, 'there is no other complete version', 'elasticdl', 'inspect', ...from);
    await refused(5, words, ...importing, only, newUri());
  });

  test('--all takes every whole version, lowest first', async () => {
    const root = await elasticdlDirectory(95, 100, 105);
    await rm(join(root, 'version-100', 'variables-1-of-2.ckpt'));
    const uri = newUri();
    const { stdout } = await cli(...importing, root, uri, '--all');
    expect(stdout.replace(/[\d.]+ m?s/, 'TIME')).toBe(
      `skipped   ${join(root, 'version-100')} lacks shard 1 of 2; it has 0\n` +
        'saved     version 95   210 B in 2 files\n' +
        'saved     version 105   210 B in 2 files\n' +
        'imported  2 versions   420 B   TIME   1 skipped\n',
    );
    const again = await asJson(...importing, root, uri, '--all');
    expect(again).toEqual({
      from: root,
      uri,
      imported: [95, 105].map((version) => ({
        version,
        id: expect.objectContaining({ version }),
        sizeBytes: 210,
        fileCount: 2,
        modelVersion: version,
        wasCommittedBefore: true,
        isAnnotated: false,
        notes: [],
        suspicions: [],
      })),
      skipped: [{ version: 100, folder: 'version-100', reason: expect.stringContaining('lacks shard 1') }],
      sizeBytes: 0,
      durationMs: expect.any(Number),
    });
  });

  test('--as gives it another version, and what the files say is noted', async () => {
    const root = await elasticdlDirectory(100);
    const { stderr, stdout } = await cli(...importing, root, newUri(), '--as', '7');
    expect(stdout).toContain('imported  version 7 ');
    expect(stderr).toContain(`note: the files of ${join(root, 'version-100')} say version 100\n`);
  });

  test('what does not decode is never committed; what does not go together is refused', async () => {
    const root = await elasticdlDirectory(100);
    const uri = newUri();
    await refused(
      2,
      '--all cannot be combined with --as and --metric',
      ...importing,
      root,
      uri,
      '--all',
      '--as',
      '7',
      '--metric',
      'a=1',
    );
    await refused(2, 'elasticdl import needs RUN', ...importing, root);
    await refused(6, `there is nothing at ${root}x`, ...importing, `${root}x`, uri);
    await refused(
      6,
      'omit --all to import a single version',
      ...importing,
      join(root, 'version-100'),
      uri,
      '--all',
    );
    await truncate(join(root, 'version-100', 'variables-0-of-2.ckpt'), 100);
    await refused(5, 'that version was not committed', ...importing, root, uri);
    const { code, stdout, stderr } = await cli(...importing, root, uri, '--all');
    expect(code).toBe(5);
    expect(stdout).toContain('skipped   ');
    expect(stderr).toContain(`no version in ${root} could be imported`);
    await refused(6, 'no run at', 'list', uri);
    await cli(...importing, await elasticdlDirectory(100), uri);
    await refused(2, `${uri} is already a run`, ...importing, uri, newUri());
    await refused(7, 'version 100', ...importing, await elasticdlDirectory(95), uri, '--as', '100');
  });
});
