/** Truncated files: at any cut, the file is rejected or reported as suspicious. */

import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asJson, cli, refused } from './in-process.ts';
import { sampleFiles, writeFiles } from './sample-files.ts';
import { BIAS, denseEntry, FORMS, int, join as joined, KERNEL, writtenShard } from './written-shards.ts';

let root: string;
let count = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-cuts-'));
});
afterAll(() => rm(root, { recursive: true }));

/** A new directory with one version of one file. */
async function versionOf(bytes: Uint8Array, version = 100): Promise<string> {
  const directory = join(root, `checkpoint-${count++}`);
  await writeFiles(join(directory, `version-${version}`), { 'variables-0-of-1.ckpt': bytes });
  return directory;
}

const newPath = (ending = '') => join(root, `out-${count++}${ending}`);
const newRun = () => `memory://cuts-${count++}`;

/** Offsets between two fields of the model, without the start and the end. */
function boundaries(bytes: Uint8Array): number[] {
  const found: number[] = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const isBytes = (varint() & 7) === 2;
    const value = varint();
    if (isBytes) at += value;
    if (at < bytes.length) found.push(at);
  }
  return found;
}

describe('a file of one shard, cut between two fields', () => {
  test.each(FORMS)(
    '%s: each cut is suspicious or refused, and the whole file is neither beside another version',
    async (form) => {
      const whole = writtenShard(form);
      const other = joined(int(1, 95), whole.subarray(2));
      const directory = await versionOf(whole);
      await writeFiles(join(directory, 'version-95'), { 'variables-0-of-1.ckpt': other });
      // S3 has rows without infos, and so does a truncated S4 file.
      const suspicions = form === 'S3' ? [expect.stringContaining('but no info of a table')] : [];
      expect((await asJson('elasticdl', 'inspect', directory)).suspicions).toEqual(suspicions);
      const cuts = boundaries(whole);
      expect(cuts.length).toBeGreaterThanOrEqual(2);
      for (const cut of cuts) {
        const alone = await versionOf(whole.subarray(0, cut));
        await writeFile(join(directory, 'version-100', 'variables-0-of-1.ckpt'), whole.subarray(0, cut));
        for (const at of [alone, directory]) {
          const { code, stdout } = await cli('elasticdl', 'inspect', at, '--json');
          const { suspicions: told = [] } = JSON.parse(stdout);
          expect([code, told.length], `${form} at ${cut}`).toEqual(code === 5 ? [5, 0] : [0, 1]);
        }
      }
    },
  );

  test('inspect, export, repartition and import say it, in text and in JSON', async () => {
    const whole = writtenShard('S7');
    const cut = await versionOf(whole.subarray(0, boundaries(whole).at(-1)));
    const reason = 'has the info of table "embedding", but no entry for the rows, which comes last';
    expect((await cli('elasticdl', 'inspect', cut)).stdout).toContain(
      `\nsuspicious variables-0-of-1.ckpt ${reason}\n`,
    );
    const calls = [
      ['elasticdl', 'export', cut, newPath('.safetensors')],
      ['elasticdl', 'repartition', cut, newPath(), '--to', '2'],
      ['elasticdl', 'import', cut, newRun()],
    ];
    for (const call of calls) {
      const ended = await cli(...call, '--quiet');
      expect([ended.code, ended.stderr]).toEqual([
        0,
        expect.stringMatching(/^suspicious {2,}.*variables-0-of-1/),
      ]);
      expect(ended.stderr).toContain(reason);
    }
    const told = [expect.stringContaining(reason)];
    expect((await asJson('elasticdl', 'export', cut, newPath('.safetensors'))).suspicions).toEqual(told);
    expect((await asJson('elasticdl', 'repartition', cut, newPath(), '--to', '2')).suspicions).toEqual(told);
    const { imported } = await asJson('elasticdl', 'import', cut, newRun());
    expect(imported[0].suspicions).toEqual(told);
  });

  test('variables that another version has, of a run, of the directory, or of a directory named itself', async () => {
    const variables = (version: number, ...tensors: (typeof KERNEL)[]) =>
      joined(int(1, version), ...tensors.map((tensor) => denseEntry(3, tensor)));
    const directory = await versionOf(variables(95, KERNEL, BIAS), 95);
    const cut = join(directory, 'version-100');
    await writeFiles(cut, { 'variables-0-of-1.ckpt': variables(100, KERNEL) });
    const missing = 'lacks variable "dense/bias:0", which ';
    const told = `${cut} ${missing}${join(directory, 'version-95')} has`;
    for (const at of [directory, cut]) {
      expect((await asJson('elasticdl', 'inspect', at)).suspicions).toEqual([told]);
    }
    const run = newRun();
    const { imported } = await asJson('elasticdl', 'import', directory, run, '--all');
    expect(imported.map(({ suspicions }: { suspicions: string[] }) => suspicions)).toEqual([[], [told]]);
    const [ofRun] = (await asJson('elasticdl', 'inspect', run)).suspicions;
    expect(ofRun).toBe(`version 100 of ${run} ${missing}version 95 of ${run} has`);
    expect((await asJson('elasticdl', 'inspect', run, '--version', '95')).suspicions).toEqual([]);
  });

  test('what nothing tells is said: a lone version without a table', async () => {
    const lone = await versionOf(joined(int(1, 100), denseEntry(3, KERNEL)));
    const [reason] = (await asJson('elasticdl', 'inspect', lone)).suspicions;
    expect(reason).toContain('is complete: it has no required last field, and there is no other version');
  });

  test('two servers without a table: nothing shows it, unless another version has more', async () => {
    const directory = join(root, `checkpoint-${count++}`);
    const write = (version: number, ...second: (typeof KERNEL)[]) =>
      writeFiles(join(directory, `version-${version}`), {
        'variables-0-of-2.ckpt': joined(int(1, version), denseEntry(3, KERNEL)),
        'variables-1-of-2.ckpt': joined(int(1, version), ...second.map((each) => denseEntry(3, each))),
      });
    await write(100);
    const [reason] = (await asJson('elasticdl', 'inspect', directory)).suspicions;
    expect(reason).toMatch(
      /^it is not known whether the files of .* are complete: they have no required last field/,
    );
    await write(95, BIAS);
    const [more] = (await asJson('elasticdl', 'inspect', directory)).suspicions;
    expect(more).toContain('lacks variable "dense/bias:0", which ');
  });

  test('two servers: the one that lacks the infos of the other', async () => {
    const files = sampleFiles({ version: 100, count: 2 });
    const name = 'variables-1-of-2.ckpt';
    const directory = join(root, `checkpoint-${count++}`, 'version-100');
    await writeFiles(directory, files);
    expect((await asJson('elasticdl', 'inspect', directory)).suspicions).toEqual([]);
    await truncate(join(directory, name), 2);
    const [reason] = (await asJson('elasticdl', 'inspect', directory)).suspicions;
    expect(reason).toMatch(
      /variables-1-of-2.ckpt lacks the info of table "embedding", which .*-0-of-2.ckpt has$/,
    );
  });
});

describe('a shard that has no version', () => {
  const withoutVersion = () => writtenShard('S7').subarray(2);

  test.each([
    ['of zero bytes', () => new Uint8Array(0), 'is empty, without even a version, but should be version 100'],
    ['that lacks the field', withoutVersion, 'has no version, but should be version 100'],
  ])('%s is refused wherever version-100 is its directory', async (_, bytes, words) => {
    const directory = await versionOf(bytes());
    const file = join(directory, 'version-100', 'variables-0-of-1.ckpt');
    const inspected = await cli('elasticdl', 'inspect', directory);
    expect([inspected.code, inspected.stderr]).toEqual([5, expect.stringContaining(words)]);
    expect(await cli('elasticdl', 'inspect', file)).toMatchObject({ code: 5 });
    const run = newRun();
    for (const from of [directory, join(directory, 'version-100'), file]) {
      await refused(5, words, 'elasticdl', 'export', from, newPath('.safetensors'));
      const dense = ['--dense-all', 'highest'];
      await refused(5, words, 'elasticdl', 'export', from, newPath('.safetensors'), ...dense);
      await refused(5, words, 'elasticdl', 'repartition', from, newPath(), '--to', '2');
      await refused(5, words, 'elasticdl', 'import', from, run);
    }
    const all = await cli('elasticdl', 'import', directory, run, '--all');
    expect([all.code, all.stdout]).toEqual([5, expect.stringContaining(words)]);
    await refused(6, 'no run', 'list', run);
  });

  test('a run, whose catalog names the version', async () => {
    const run = newRun();
    const directory = await versionOf(new Uint8Array(0));
    await cli('save', join(directory, 'version-100'), run, '--version', '100');
    const words = 'is empty, without even a version, but should be version 100';
    await refused(5, words, 'elasticdl', 'export', run, newPath('.safetensors'));
  });

  test('one shard of two, whose server had nothing to write, and version 0 are no mistake', async () => {
    const files = sampleFiles({ version: 100, count: 2 });
    const directory = join(root, `checkpoint-${count++}`, 'version-100');
    await writeFiles(directory, { ...files, 'variables-1-of-2.ckpt': new Uint8Array(0) });
    await refused(
      5,
      'versions in model shards are not consistent',
      'elasticdl',
      'import',
      directory,
      newRun(),
    );
    const zero = await versionOf(withoutVersion(), 0);
    const imported = await cli('elasticdl', 'import', zero, newRun());
    expect([imported.code, imported.stderr]).toEqual([0, expect.not.stringContaining('suspicious')]);
    const empty = await asJson('elasticdl', 'inspect', await versionOf(new Uint8Array(0), 0));
    expect(empty.suspicions).toEqual([expect.stringContaining('holds nothing')]);
  });

  test('taken out of its directory it can be imported, as version 0 only', async () => {
    const file = newPath('.ckpt');
    await writeFile(file, withoutVersion());
    await refused(5, 'but should be version 7', 'elasticdl', 'import', file, newRun(), '--as', '7');
    expect(await asJson('elasticdl', 'import', file, newRun())).toMatchObject({ imported: [{ version: 0 }] });
  });
});

describe('a model in one file, as until November 2019', () => {
  test.each(['S0', 'S1', 'S2', 'S3'] as const)(
    '%s: inspected, exported, divided and imported, byte for byte',
    async (form) => {
      const bytes = writtenShard(form);
      const file = join(root, `models-${count++}`, 'model_v100.chkpt');
      await writeFiles(join(file, '..'), { 'model_v100.chkpt': bytes, 'model_v95.chkpt': bytes });
      expect(await asJson('elasticdl', 'inspect', file)).toMatchObject({ version: 100, modelVersion: 100 });
      const exported = await asJson('elasticdl', 'export', file, newPath('.safetensors'));
      expect(exported).toMatchObject({ version: 100, from: file });
      expect(exported.tensors.length).toBe(form === 'S0' ? 2 : 4);
      const out = newPath();
      expect((await asJson('elasticdl', 'repartition', file, out, '--to', '2')).files).toHaveLength(2);
      const run = newRun();
      expect((await asJson('elasticdl', 'import', file, run)).imported).toMatchObject([{ version: 100 }]);
      const shown = await asJson('show', run);
      expect(shown.files).toMatchObject([{ name: 'variables-0-of-1.ckpt', sizeBytes: bytes.length }]);
      const again = await asJson('elasticdl', 'export', run, newPath('.safetensors'));
      expect(again.tensors).toEqual(exported.tensors);
    },
  );

  test('a directory of such files: the newest, one by its version, all of them', async () => {
    const directory = join(root, `models-${count++}`);
    const of = (version: number) => joined(int(1, version), writtenShard('S0').subarray(2));
    await writeFiles(directory, {
      'model_v95.chkpt': of(95),
      'model_v100.chkpt': of(100),
      'model_vx.chkpt': of(7),
    });
    const inspected = await asJson('elasticdl', 'inspect', directory);
    expect(inspected).toMatchObject({
      where: join(directory, 'model_v100.chkpt'),
      version: 100,
      suspicions: [],
    });
    const exported = await asJson(
      'elasticdl',
      'export',
      directory,
      newPath('.safetensors'),
      '--version',
      '95',
    );
    expect(exported).toMatchObject({ from: join(directory, 'model_v95.chkpt'), version: 95 });
    const run = newRun();
    const { imported } = await asJson('elasticdl', 'import', directory, run, '--all');
    expect(imported.map(({ version }: { version: number }) => version)).toEqual([95, 100]);
    await truncate(join(directory, 'model_v100.chkpt'), 0);
    const words = 'model_v100.chkpt is empty, without even a version';
    await refused(5, words, 'elasticdl', 'export', directory, newPath('.safetensors'));
  });

  test('bad input: another version, one shard of several, --all, nothing there', async () => {
    const file = join(root, `models-${count++}`, 'model_v100.chkpt');
    await writeFiles(join(file, '..'), { 'model_v100.chkpt': writtenShard('S0') });
    const out = newPath('.safetensors');
    const other = ['--version', '7'];
    await refused(6, 'is version 100, and --version asks for 7', 'elasticdl', 'export', file, out, ...other);
    await refused(2, '--all needs a directory of versions', 'elasticdl', 'import', file, newRun(), '--all');
    await refused(6, 'there is nothing at', 'elasticdl', 'export', `${file}x`, out);
    const shard = join(await versionOf(writtenShard('S7')), 'version-100', 'variables-0-of-2.ckpt');
    await writeFile(shard, writtenShard('S7'));
    for (const call of [
      ['export', shard, out],
      ['import', shard, newRun()],
      ['repartition', shard, newPath(), '--to', '2'],
    ])
      await refused(2, 'is one shard of 2; open the directory that holds them all', 'elasticdl', ...call);
  });
});
