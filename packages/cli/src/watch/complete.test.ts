import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Completeness } from './complete.ts';
import { parsePattern } from './pattern.ts';
import { parseRule } from './rule.ts';
import type { Entry } from './tree.ts';

function directory(): string {
  const made = mkdtempSync(join(tmpdir(), 'holdfast-complete-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function watching(rule: string, at = '/watched') {
  const clock = { nowMs: 0 };
  const complete = new Completeness(parseRule(rule), parsePattern('step{version}'), () => clock.nowMs);
  const entry = (version: bigint): Entry => {
    const name = `step${version}`;
    return { name, path: join(at, name), place: '', isDirectory: true, version };
  };
  const isComplete = (names: readonly string[], version = 100n, state = '1 2 3') =>
    complete.isComplete(entry(version), new Map(names.map((name) => [name, state])));
  return { clock, complete, entry, isComplete };
}

describe('when a checkpoint is complete', () => {
  test.each([
    ['rename', ['a'], true],
    ['rename', [], false],
    ['metadata', ['.metadata.tmp', '__0_0.distcp'], false],
    ['metadata', ['model/.metadata', 'model/__0_0.distcp', 'optimizer/__0_0.distcp'], false],
  ])('%s with %j: %s', async (rule, names, expected) => {
    expect(await watching(rule).isComplete(names)).toBe(expected);
  });

  const ZIP = `PK\u0003\u0004content${'PK\u0005\u0006'.padEnd(22, '\0')}`;
  const STATE = '{"epoch": 1}\n';
  /** `{"a": 1}`, and a dictionary that ends within the key "a.b". */
  const PICKLE = '\x80\x02}X\x01\0\0\0aK\x01s.';
  const CUT = '\x80\x02}X\x03\0\0\0a.';
  const SHARDS = { '__0_0.distcp': '', '__1_0.distcp': '' };
  test.each<[string, Record<string, string>, boolean]>([
    ['metadata', { ...SHARDS, '.metadata': PICKLE }, true],
    ['metadata', { '.metadata': PICKLE }, true],
    ['metadata', { 'model/__0_0.distcp': '', 'model/.metadata': PICKLE, readme: '' }, true],
    ['metadata', { ...SHARDS, '.metadata': PICKLE.slice(0, -1) }, false],
    ['metadata', { ...SHARDS, '.metadata': CUT }, false],
    ['metadata', { ...SHARDS, '.metadata': PICKLE, 'model/.metadata': CUT }, false],
    ['metadata', { ...SHARDS, '.metadata': '\x80\x02an operation that is not read.' }, true],
    ['hf', { 'trainer_state.json': STATE, 'rng_state.pth': ZIP }, true],
    ['hf', { 'trainer_state.json': STATE }, false],
    ['hf', { 'rng_state.pth': ZIP, 'model.safetensors': '' }, false],
    ['hf', { 'trainer_state.json': '', 'rng_state.pth': ZIP }, false],
    ['hf', { 'trainer_state.json': '{"epoch": 1,', 'rng_state.pth': ZIP }, false],
    ['hf', { 'trainer_state.json': STATE, 'rng_state.pth': '' }, false],
    ['hf', { 'trainer_state.json': STATE, 'rng_state.pth': ZIP.slice(0, -1) }, false],
    ['hf:2', { 'trainer_state.json': STATE, 'rng_state_0.pth': ZIP, 'rng_state_1.pth': ZIP }, true],
    ['hf:2', { 'trainer_state.json': STATE, 'rng_state_0.pth': ZIP, 'rng_state_1.pth': 'PK' }, false],
    ['hf:2', { 'trainer_state.json': STATE, 'rng_state_0.pth': ZIP }, false],
  ])('%s with %j: %s', async (rule, files, expected) => {
    const at = directory();
    mkdirSync(join(at, 'step100', 'model'), { recursive: true });
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(at, 'step100', name), text, 'latin1');
    const names = Object.keys(files);
    expect(await watching(rule, at).isComplete(names)).toBe(expected);
    // They are gone by now.
    rmSync(join(at, 'step100'), { recursive: true });
    expect(await watching(rule, at).isComplete(names)).toBe(false);
  });

  test('metadata: a shard that is younger belongs to a save that has not ended', async () => {
    const at = directory();
    mkdirSync(join(at, 'step1'));
    writeFileSync(join(at, 'step1', '.metadata'), PICKLE, 'latin1');
    const { complete, entry } = watching('metadata', at);
    const tree = (shard: string, metadata: string) =>
      new Map([
        ['__0_0.distcp', `1 2 ${shard}`],
        ['.metadata', `3 4 ${metadata}`],
      ]);
    expect(await complete.isComplete(entry(1n), tree('100', '100'))).toBe(true);
    expect(await complete.isComplete(entry(1n), tree('101', '100'))).toBe(false);
    expect(await complete.isComplete(entry(1n), new Map([['.metadata', '3 0 100']]))).toBe(false);
  });

  test('metadata: the last byte decides on one of more than 16 MiB', async () => {
    const at = directory();
    mkdirSync(join(at, 'step1'));
    const { complete, entry } = watching('metadata', at);
    const isComplete = (end: string) => {
      // Its last 16 MiB would be a truncated pickle.
      const text = `-${'X\xff\xff\xff\xff'.padEnd(16 * 1024 * 1024 - 1, '-')}${end}`;
      writeFileSync(join(at, 'step1', '.metadata'), text, 'latin1');
      return complete.isComplete(entry(1n), new Map([['.metadata', `1 ${text.length} 2`]]));
    };
    expect(await isComplete('.')).toBe(true);
    expect(await isComplete('-')).toBe(false);
  });

  const SAVED = {
    'config.json': 10,
    'model.safetensors': 40,
    'optimizer.pt': 60,
    'rng_state_0.pth': 70,
    'trainer_state.json': 70,
  };
  test.each<[string, Record<string, number>, string | null]>([
    ['one save', { 'rng_state_1.pth': 9 }, null],
    ['a slow rank', { 'rng_state_1.pth': 95 }, null],
    [
      'a model of a later save',
      { 'model.safetensors': 100 },
      'model.safetensors is younger than trainer_state',
    ],
    [
      'a part of a later save',
      { 'global_step1/a.pt': 100 },
      'global_step1/a.pt is younger than trainer_state',
    ],
    [
      'a random state of a later save',
      { 'rng_state_0.pth': 100 },
      'rng_state_0.pth is younger than trainer_state',
    ],
    ['another rank of the save before', { 'rng_state_1.pth': 1 }, 'rng_state_1.pth is older than all files'],
  ])('hf, %s: %j', async (_, times, problem) => {
    const at = directory();
    mkdirSync(join(at, 'step100'));
    const all: Record<string, number> = { 'rng_state_1.pth': 70, ...SAVED, ...times };
    for (const name of Object.keys(all))
      if (!name.includes('/'))
        writeFileSync(join(at, 'step100', name), name.endsWith('.json') ? STATE : ZIP, 'latin1');
    const { clock, complete, entry } = watching('hf:2', at);
    const tree = new Map(Object.entries(all).map(([name, seconds]) => [name, `1 2 ${seconds}000000000`]));
    expect(await complete.isComplete(entry(100n), tree)).toBe(problem === null);
    clock.nowMs += 30_000;
    const later = complete.isComplete(entry(100n), tree);
    if (problem === null) expect(await later).toBe(true);
    else
      await expect(later).rejects.toMatchObject({
        code: 'SourceChanged',
        message: expect.stringContaining(problem),
      });
  });

  test.each<[string, (path: string) => void]>([
    ['a file', (path) => writeFileSync(path, 'step100')],
    ['a link', (path) => symlinkSync('step100', path)],
  ])('tracker, %s: a file written long after it belongs to a save that has not ended', async (_, name) => {
    const at = directory();
    name(join(at, 'latest'));
    const { clock, isComplete } = watching('tracker:5s', at);
    const state = (offsetMs: number) => `1 2 ${Date.now() + offsetMs}000000`;
    const [after, late] = [state(50_000), state(90_000)];
    await isComplete(['a'], 100n, after);
    clock.nowMs += 5000;
    expect(await isComplete(['a'], 100n, after)).toBe(true);
    expect(await isComplete(['a'], 100n, late)).toBe(false);
    clock.nowMs += 29_999;
    expect(await isComplete(['a'], 100n, late)).toBe(false);
    clock.nowMs += 1;
    await expect(isComplete(['a'], 100n, late)).rejects.toThrow(
      'a was written more than 60 s after the tracker',
    );
  });

  test('quiet: nothing has changed for so long, from the first look on', async () => {
    const { clock, complete, entry, isComplete } = watching('quiet:30s');
    expect(await isComplete(['a'])).toBe(false);
    clock.nowMs = 29_999;
    expect(await isComplete(['a'])).toBe(false);
    expect(await isComplete(['a', 'b'])).toBe(false);
    clock.nowMs = 40_000;
    expect(await isComplete(['a', 'b'], 100n, '1 2 4')).toBe(false);
    clock.nowMs = 70_000;
    expect(await isComplete(['a', 'b'], 100n, '1 2 4')).toBe(true);
    complete.forget(entry(100n));
    expect(await isComplete(['a', 'b'], 100n, '1 2 4')).toBe(false);
  });

  test.each([
    ['latest', 'step100\n'],
    ['latest_checkpointed_iteration.txt', '100'],
  ])('tracker: %s names it, or has named it, and it is quiet', async (name, text) => {
    const at = directory();
    const { clock, isComplete } = watching('tracker:5s', at);
    const lookTwice = async (version: bigint) => {
      await isComplete(['a'], version);
      clock.nowMs += 5000;
      return isComplete(['a'], version);
    };
    expect(await lookTwice(100n)).toBe(false);
    writeFileSync(join(at, name), text);
    expect(await lookTwice(100n)).toBe(true);
    expect(await lookTwice(90n)).toBe(false);
    expect(await lookTwice(101n)).toBe(false);
    writeFileSync(join(at, name), text.replace('100', '101'));
    expect(await lookTwice(101n)).toBe(true);
    writeFileSync(join(at, name), 'release');
    expect(await lookTwice(100n)).toBe(true);
    expect(await lookTwice(102n)).toBe(false);
  });

  test.each<[string, (path: string) => void, boolean]>([
    ['a link to the checkpoint', (path) => symlinkSync('step100', path), true],
    ['a link to nothing of that name', (path) => symlinkSync(path, path), false],
    ['a directory', (path) => mkdirSync(path), false],
    ['a pipe without a writer', (path) => execFileSync('mkfifo', [path]), false],
    ['a long file', (path) => writeFileSync(path, `step100${' '.repeat(5000)}`), false],
  ])('a tracker that is %s', async (_, make, expected) => {
    const at = directory();
    make(join(at, 'latest'));
    const { clock, isComplete } = watching('tracker:5s', at);
    await isComplete(['a']);
    clock.nowMs += 5000;
    await isComplete(['a']);
    clock.nowMs += 5000;
    expect(await isComplete(['a'])).toBe(expected);
  });
});

test.each([
  '',
  'never',
  'rename:1',
  'metadata:2',
  'hf:0',
  'hf:x',
  'quiet',
  'quiet:',
  'quiet:1',
  'tracker:0.1s',
])('the rule "%s" is refused', (text) => {
  expect(() => parseRule(text)).toThrow();
});
