/** `annotate`, and how commands distinguish checkpoints of one version: output and exit status. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeShard } from '@holdfast/elasticdl';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';

let directory: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-annotate-'));
});
afterAll(() => rm(directory, { recursive: true }));

async function done(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  if (code !== 0) throw new Error(`${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** Expects this exit status, these words in the error, and no result. */
async function refused(code: number, words: string | RegExp, ...args: string[]) {
  const ended = await cli(...args);
  expect(ended.stderr).toMatch(words);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
}

const newUri = () => `memory://annotate-${count++}`;

async function save(uri: string, version: number, content: string, ...more: string[]): Promise<string> {
  const path = join(directory, 'one.bin');
  await writeFile(path, content);
  return done('save', path, uri, '--version', String(version), '--on-stale', 'off', ...more);
}

async function savedRun(...versions: number[]): Promise<string> {
  const uri = newUri();
  for (const version of versions) await save(uri, version, `of version ${version}`);
  return uri;
}

/** Version 2 exists twice: a rollback left one behind. */
async function rolledBackRun(): Promise<string> {
  const uri = await savedRun(1, 2);
  await done('rollback', uri, '--to', '1', '--reason', 'loss went up');
  await save(uri, 2, 'written anew');
  return uri;
}

describe('annotate', () => {
  test('says what it recorded; list, show and log have it; JSON has the documented names', async () => {
    const uri = await savedRun(1, 2);
    const args = ['annotate', uri, '--version', '1', '--metric', 'auc=0.91', '--meta', 'on=test 2026'];
    expect(await done(...args)).toBe('annotated  version 1   auc 0.91   on=test 2026\n');
    expect(await done('list', uri)).toMatch(/^ +1 .* auc 0\.91/m);
    expect(await done('show', uri, '--version', '1')).toMatch(/^metric +auc 0\.91\nmetadata +on=test 2026$/m);
    expect(await done('log', uri, '--limit', '1')).toMatch(/annotate +1 .* auc=0\.91, on="test 2026"\n$/);
    expect(await asJson('annotate', uri, '--version', '2', '--metric', 'auc=1e-3')).toEqual({
      uri,
      version: 2,
      id: { lineage: 1, epoch: 2, version: 2 },
      metrics: { auc: 0.001 },
      metadata: {},
    });
    expect(await done('annotate', uri, '--version', '2', '--metric', 'auc=1', '--quiet')).toBe('');
    expect(await done('elasticdl', 'best', uri, '--metric', 'auc')).toMatch(/^best {2,}version 2 /);
    expect((await asJson('show', uri, '--version', '1')).metadata).toEqual({ on: 'test 2026' });
  });

  test('what cannot be recorded is refused: each by its own words and status', async () => {
    const uri = await savedRun(1, 2, 3);
    const annotate = (version: string, ...more: string[]) => ['annotate', uri, '--version', version, ...more];
    await refused(2, 'annotate needs --metric or --meta', ...annotate('1'));
    await refused(2, 'annotate needs --version', 'annotate', uri, '--metric', 'auc=1');
    for (const value of ['NaN', 'Infinity', '-inf', '', '1,5'])
      await refused(2, `the value of "auc" is "${value}"`, ...annotate('1', '--metric', `auc=${value}`));
    await refused(2, 'is not of the form NAME=VALUE', ...annotate('1', '--metric', 'auc'));
    await refused(2, 'is not of the form NAME=VALUE', ...annotate('1', '--meta', '=x'));
    await refused(2, '"auc" is given twice', ...annotate('1', '--metric', 'auc=1', '--metric', 'auc=2'));
    await refused(2, 'V@L is version V of lineage L', ...annotate('1@x', '--metric', 'auc=1'));
    await refused(2, 'has 257 characters', ...annotate('1', '--metric', `${'m'.repeat(257)}=1`));
    await refused(2, 'at most 4096', ...annotate('1', '--meta', `note=${'x'.repeat(4096)}`));
    await refused(6, 'version 9 is not in the catalog', ...annotate('9', '--metric', 'auc=1'));
    await refused(6, 'version 1@2 is not in the catalog', ...annotate('1@2', '--metric', 'auc=1'));
    await refused(6, 'no run at', 'annotate', newUri(), '--version', '1', '--metric', 'auc=1');
    await done('gc', uri, '--keep', '2', '--force', '--apply');
    await refused(
      7,
      /version 1 is retired: undelete it first\n.*\n.*`holdfast undelete .* --version 1` makes it live/,
      ...annotate('1', '--metric', 'auc=1'),
    );
    await done('annotate', uri, '--version', '3', '--meta', `note=${'x'.repeat(4000)}`);
    await refused(7, 'would have 4117 bytes', ...annotate('3', '--meta', `more=${'x'.repeat(96)}`));
  });

  test('a save of the same content records its metrics, and says so', async () => {
    const uri = await savedRun(1);
    expect(await save(uri, 1, 'of version 1')).toMatch(/before, with the same content; nothing was sent\n$/);
    expect(await save(uri, 1, 'of version 1', '--metric', 'auc=0.9')).toMatch(
      /before, with the same content; nothing was sent; its metrics and metadata are recorded now\n$/,
    );
    expect(await done('list', uri)).toContain('auc 0.9');
  });

  test('a mirror tells what it carried over', async () => {
    const uri = await savedRun(1);
    const copy = newUri();
    await done('mirror', uri, copy);
    await done('annotate', uri, '--version', '1', '--metric', 'auc=0.9');
    expect(await done('mirror', uri, copy)).toBe('mirrored  0 versions   1 already there   1 annotated\n');
    expect(await done('list', copy)).toContain('auc 0.9');
  });
});

describe('two checkpoints of one version', () => {
  test('list, gc and log show the one that was left behind with its lineage', async () => {
    const uri = await rolledBackRun();
    expect(await done('list', uri)).toMatch(/^ +2 .* latest\n +2@1 .* left behind\n +1 /m);
    const plan = await done('gc', uri, '--keep', '1', '--plan');
    expect(plan).toMatch(/^keep +2 .* 1 and 2$/m); // The attempt resumed from 1.
    expect(plan).toMatch(/^retire +1 .* 2@1$/m);
    expect(await done('gc', uri, '--keep', '1', '--explain')).toMatch(/^ +2 .*keep.*\n +2@1 .*retire/m);
    expect((await asJson('gc', uri, '--keep', '1', '--plan')).plan.checkpoints).toMatchObject([
      { version: 2, id: { lineage: 2 }, isLeftBehind: false },
      { version: 2, id: { lineage: 1 }, isLeftBehind: true },
      { version: 1, isLeftBehind: false },
    ]);
    await done('pin', uri, '--version', '2@1', '--label', 'paper');
    expect(await done('log', uri, '--limit', '1')).toMatch(/ pin +2@1 /);
    expect(await done('gc', uri, '--keep', '1', '--apply', '--force')).toMatch(/retired 0, removed 0/);
    await done('unpin', uri, '--version', '2@1');
    expect(await done('gc', uri, '--keep', '1', '--apply', '--force')).toMatch(/^waits {2,}2@1 {2,}/);
    await refused(7, 'version 2@2 is not retired: it is live', 'undelete', uri, '--version', '2@2');
    expect(await done('undelete', uri, '--version', '2@1')).toMatch(/^live again {2,}version 2@1 /);
  });

  test('--version takes either: show, restore, verify, diff, lease, annotate', async () => {
    const uri = await rolledBackRun();
    expect(await done('show', uri, '--version', '2')).toMatch(/^version +2 {2,}latest$/m);
    expect(await done('show', uri, '--version', '2@1')).toMatch(/^version +2@1 {2,}left behind$/m);
    for (const [version, content] of [
      ['2', 'written anew'],
      ['2@2', 'written anew'],
      ['2@1', 'of version 2'],
    ] as const) {
      const out = join(directory, `out-${version}`);
      const restored = await done('restore', uri, out, '--version', version);
      expect(restored).toContain(`restored  version ${version}   `);
      expect(await readFile(join(out, 'one.bin'), 'utf8')).toBe(content);
    }
    expect((await asJson('verify', uri, '--version', '2@1')).id.lineage).toBe(1);
    expect(await done('verify', uri, '--version', '2@1')).toMatch(/^verified {2,}version 2@1 /);
    expect(await done('diff', uri, '2@1', '2')).toMatch(/^version 2@1 → 2@2\n/);
    for (const version of ['2@1', '2'])
      expect(await done('lease', uri, '--for', '1h', '--version', version)).toContain(
        `version ${version} until`,
      );
    expect(await done('lease', uri, '--list')).toMatch(/^ +2@1 .*\n +2@2 /m);
    expect((await asJson('lease', uri, '--list', '--version', '2@1')).leases).toMatchObject([
      { checkpoint: { lineage: 1, version: 2 } },
    ]);
    await done('annotate', uri, '--version', '2@1', '--metric', 'auc=0.1');
    expect(await done('list', uri)).toMatch(/^ +2@1 .* auc 0\.1 /m);
    await refused(6, 'version 2@1 was left behind', 'rollback', uri, '--to', '2@1', '--reason', 'x');
    await refused(6, 'no version 2@3 in', 'show', uri, '--version', '2@3');
  });

  test('a version that is only left behind is told from one that never was', async () => {
    const uri = await savedRun(1, 2);
    await done('rollback', uri, '--to', '1', '--reason', 'loss went up');
    await refused(
      6,
      'there is no version 2 on the way to the latest (a rollback left 2@1 behind)',
      ...['restore', uri, join(directory, 'none'), '--version', '2'],
    );
    await refused(6, 'there is no version 9: the newest', 'verify', uri, '--version', '9');
  });
});

describe('elasticdl export --best', () => {
  async function evaluatedRun(): Promise<string> {
    const uri = newUri();
    for (const [version, auc] of [
      [1, 0.9],
      [2, 0.5],
    ] as const) {
      const bias = { dtype: 'float32', shape: [1], data: new Uint8Array(4) } as const;
      const shard = { version, infos: [], dense: new Map([['bias', bias]]), tables: new Map() };
      const path = join(directory, 'variables-0-of-1.ckpt');
      await writeFile(path, Buffer.concat([...encodeShard(shard).chunks()]));
      await done('save', path, uri, '--version', String(version), '--on-stale', 'off');
      await done('annotate', uri, '--version', String(version), '--metric', `auc=${auc}`);
    }
    return uri;
  }

  test('exports the checkpoint that is best by a metric', async () => {
    const uri = await evaluatedRun();
    const out = (name: string) => join(directory, `${name}.safetensors`);
    expect(await asJson('elasticdl', 'export', uri, out('max'), '--best', 'auc:max')).toMatchObject({
      version: 1,
    });
    expect(await asJson('elasticdl', 'export', uri, out('min'), '--best', 'auc:min')).toMatchObject({
      version: 2,
    });
    const exported = (...more: string[]) => ['elasticdl', 'export', uri, out('none'), ...more];
    await refused(2, 'min or max', ...exported('--best', 'auc'));
    await refused(
      2,
      '--best and --version cannot be combined',
      ...exported('--best', 'a:max', '--version', '1'),
    );
    await refused(2, 'no checkpoint has the metric "f1"', ...exported('--best', 'f1:max'));
    const files = ['elasticdl', 'export', directory, out('none'), '--best', 'auc:max'];
    await refused(6, 'only the checkpoints of a run have metrics', ...files);
    const lineage = ['elasticdl', 'export', directory, out('none'), '--version', '1@1'];
    await refused(2, '--version 1@1 names a lineage, and only a run has lineages', ...lineage);
  });
});
