/** What `--log json` and `--progress json` write to standard error. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { openStore, registerStore } from '@holdfast/stores';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callInProcess, cli } from './in-process.ts';
import type { Environment } from './sourced.ts';

let directory: string;
let count = 0;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-json-log-'));
  await writeFile(join(directory, 'a.bin'), 'bytes');
});
afterAll(() => rm(directory, { recursive: true }));

const newUri = () => `memory://json-log-${count++}`;

/** Every line of standard error, of which each must be an object with time, level and message. */
async function logOf(argv: readonly string[], env: Environment = {}) {
  const clock = { ...systemClock, nowMs: () => Date.UTC(2026, 0, 2, 3, 4, 5) };
  const { code, stdout, stderr } = await callInProcess(argv, { env, clock });
  const texts = stderr === '' ? [] : stderr.trimEnd().split('\n');
  const lines = texts.map((line) => {
    const { time, ...rest } = JSON.parse(line);
    expect(time).toBe('2026-01-02T03:04:05.000Z');
    return rest;
  });
  return { code, stdout, lines };
}

describe('--log json', () => {
  test('an error is one line with its code, exit status, advice and context', async () => {
    const uri = newUri();
    expect(await logOf(['latest', uri, '--log', 'json'])).toEqual({
      code: 6,
      stdout: '',
      lines: [
        {
          level: 'error',
          message: `no run at ${uri}`,
          code: 'NotFound',
          exitCode: 6,
          status: 'permanent',
          advice: ['check the URI; a run begins with its first save'],
          context: { store: uri, run: 'missing' },
        },
      ],
    });
    const { lines } = await logOf(['latest', uri, '--log', 'json', '--verbose']);
    expect(lines.at(-1)).toMatchObject({ level: 'error', stack: expect.stringContaining('    at ') });
  });

  test('messages and progress are lines of it, and the result is not', async () => {
    const uri = newUri();
    const argv = ['save', directory, uri, '--log', 'json'];
    const { code, stdout, lines } = await logOf(argv, { HOLDFAST_VERSOIN: '1' });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^committed {2}version 0 /)]);
    expect(lines).toEqual([
      { level: 'warn', message: expect.stringMatching(/^HOLDFAST_VERSOIN is set, and nothing reads it/) },
      { level: 'info', message: `version 0 → ${uri}   writer 0 of 1 · epoch 1` },
    ]);
  });

  test('a suspect version is one warning', async () => {
    const uri = newUri();
    await cli('save', directory, uri, '--version', '1');
    const { lines } = await logOf(['save', directory, uri, '--version', '2', '--log', 'json']);
    expect(lines.filter(({ level }) => level === 'warn')).toMatchObject([
      { message: expect.stringMatching(/^version 2 is suspect: .* has not changed since version 1$/) },
    ]);
  });

  test('--quiet leaves warnings and errors, --verbose adds details', async () => {
    const variables = { HOLDFAST_VERSOIN: '1', HOLDFAST_LOG: 'json' };
    const quiet = await logOf(['save', directory, newUri(), '--quiet'], variables);
    expect(quiet.lines.map(({ level }) => level)).toEqual(['warn']);
    const verbose = await logOf(['save', directory, newUri(), '--verbose'], variables);
    expect(verbose.lines).toContainEqual({ level: 'debug', message: '--log from HOLDFAST_LOG' });
  });

  test('has the lines of the engine: requests that are repeated, and warnings', async () => {
    const name = `memory://json-log-${count++}`;
    let failures = 0;
    registerStore('shaky', {
      form: 'shaky://x',
      open: async (uri, env) => {
        const store = await openStore(name, env);
        const list = store.list.bind(store);
        store.list = (prefix, options) => {
          failures += 1;
          if (failures === 1) throw new CheckpointError('Unavailable', 'no connection');
          return list(prefix, options);
        };
        return Object.assign(store, { uri });
      },
    });
    for (const version of ['1', '2'])
      expect((await cli('save', directory, name, '--version', version)).code).toBe(0);
    const store = await openStore(name);
    for await (const { objects } of store.list('version_2/'))
      await store.deleteMany(objects.map(({ key }) => key).filter((key) => key.endsWith('/a.bin')));
    await store.close();
    const out = join(directory, 'out');
    const restore = ['restore', 'shaky://x', out, '--on-corrupt', 'fallback'];
    const { code, lines } = await logOf([...restore, '--log', 'json']);
    expect(code).toBe(0);
    expect(lines).toContainEqual({
      level: 'info',
      message: expect.stringMatching(/^list catalog\/: Unavailable: no connection; try 2 in \d+ ms$/),
    });
    expect(lines).toContainEqual({
      level: 'warn',
      message: expect.stringMatching(/^version 2 is damaged and is skipped: /),
    });
  });

  test.each<[string[], Environment]>([
    [['list', '--bogus', '--log', 'json'], {}],
    [['--log=json', 'list', '--bogus'], {}],
    [['list', '--bogus'], { HOLDFAST_LOG: 'json' }],
  ])('a command line that is not understood: a line too, %j %o', async (argv, env) => {
    const { code, lines } = await logOf(argv, env);
    expect(code).toBe(2);
    expect(lines).toMatchObject([{ level: 'error', message: "unknown option '--bogus'" }]);
  });

  test('after -- it is a name, and the last one counts', async () => {
    expect((await cli('list', '--bogus', '--', '--log=json')).stderr).toMatch(/^holdfast: unknown option/);
    const both = await cli('list', '--bogus', '--log', 'json', '--log', 'text');
    expect(both.stderr).toMatch(/^holdfast: unknown option/);
  });

  test('no bars on a terminal, also if they are asked for', async () => {
    const terminal = { columns: 80, rows: 24 };
    const saved = await callInProcess(['save', directory, newUri(), '--log', 'json'], { terminal });
    expect(saved.stderr).not.toContain('\u001b');
    const { code, lines } = await logOf(['latest', newUri(), '--log', 'json', '--progress', 'bars']);
    expect([code, lines]).toMatchObject([
      2,
      [{ code: 'InvalidArgument', message: '--progress bars and --log json cannot be combined' }],
    ]);
    expect((await cli('latest', newUri(), '--log', 'xml')).stderr).toContain(
      '--log: "xml" is not one of text, json',
    );
  });

  test('--progress json adds its events, and errors are lines of the log', async () => {
    const args = ['--log', 'json', '--progress', 'json'];
    const saved = await cli('save', directory, newUri(), ...args);
    const events = saved.stderr.trimEnd().split('\n');
    expect(events.map((line) => JSON.parse(line).type)).toContain('committed');
    const { lines } = await logOf(['latest', newUri(), ...args]);
    expect(lines).toMatchObject([{ level: 'error', code: 'NotFound' }]);
  });
});

describe('--progress json', () => {
  test('an error is an event like the others', async () => {
    const ended = await cli('latest', newUri(), '--progress', 'json');
    const { at, ...event } = JSON.parse(ended.stderr);
    expect(at).toMatch(/^\d{4}-/);
    expect(event).toMatchObject({ type: 'error', error: { code: 'NotFound' } });
  });

  test.each<[string[], Environment]>([
    [['list', '--bogus', '--progress', 'json'], {}],
    [['--progress=json', 'list', '--bogus'], {}],
    [['list', '--bogus'], { HOLDFAST_PROGRESS: 'json' }],
  ])('an error of a command line that is not understood is such an event too, %j %o', async (argv, env) => {
    const ended = await callInProcess(argv, { env });
    expect(ended.code).toBe(2);
    expect(JSON.parse(ended.stderr)).toMatchObject({
      type: 'error',
      error: { code: 'InvalidArgument', message: "unknown option '--bogus'" },
    });
  });
});
