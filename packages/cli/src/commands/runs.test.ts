/** `runs` on runs in directories, and `latest --max-age`. */

import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError, type Clock, type ObjectStore, systemClock } from '@holdfast/core/contract';
import { openStore, registerStore } from '@holdfast/stores';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { asJson, callInProcess, cli } from '../in-process.ts';

let root: string;
let uri: string;

/** Saves a version of a run. Each save is an attempt of its own. */
async function save(run: string, version: number): Promise<void> {
  const path = join(root, 'model.bin');
  await writeFile(path, `of version ${version}`.padEnd(5000));
  const saved = await cli('save', path, `${uri}/${run}`, '--version', `${version}`);
  expect(saved.code).toBe(0);
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-runs-'));
  uri = pathToFileURL(root).href;
  for (const version of [1, 2]) await save('gpt', version);
  await save('team/bert', 7);
  await save('team/broken', 3);
  const catalog = join(root, 'team/broken/catalog');
  const newest = (await readdir(catalog)).sort().at(-1) as string;
  await chmod(join(catalog, newest), 0o644);
  await writeFile(join(catalog, newest), 'damaged');
});
afterAll(() => rm(root, { recursive: true }));

/** `NAME://x` is the directory `uri` as a store with this listing. */
function registerAs(name: string, listOf: (list: ObjectStore['list']) => ObjectStore['list']): void {
  registerStore(name, {
    form: `${name}://x`,
    open: async (opened, env) => {
      const store = await openStore(`${uri}${opened.slice(`${name}://x`.length)}`, env);
      return Object.assign(store, { uri: opened, list: listOf(store.list.bind(store)) });
    },
  });
}

/** This machine's clock, moved. */
function clockAhead(ms: number): Clock {
  return { ...systemClock, nowMs: () => systemClock.nowMs() + ms };
}

describe('runs', () => {
  test('lists the runs below a place; a damaged one is shown with its error and unknown values', async () => {
    const { code, stdout } = await cli('runs', uri);
    expect(code).toBe(0);
    const rows = stdout.split('\n');
    expect(rows[0]).toMatch(/^RUN +STATE +VERSION +AGE +WRITERS +STORED/);
    expect(rows[1]).toMatch(/^gpt +ok +2 +\d+ s +1 +9\.8 KiB +0 B +2 +2 +1 +-$/);
    expect(rows[2]).toMatch(/^team\/bert +ok +7 /);
    expect(rows[3]).toMatch(/^team\/broken +damaged +\? +\? +\? +\?/);
    expect(stdout).toContain('3 runs: 2 ok, 1 damaged');
    expect(stdout).toMatch(/damaged {2}team\/broken: .*\(Corrupt\)/);
  });

  test('--json has every fact; what is not known is null', async () => {
    const { runs, late } = await asJson('runs', uri);
    expect(late).toBeNull();
    expect(runs[0]).toMatchObject({
      uri: `${uri}/gpt`,
      name: 'gpt',
      state: 'ok',
      problem: null,
      latest: { version: 2, sizeBytes: 5000 },
      writers: 1,
      retained: 2,
      storedBytes: 10_000,
      recentAttempts: 2,
      recentFences: 1,
      verifiedVersion: null,
      saves: null,
    });
    expect(runs[2]).toMatchObject({
      state: 'damaged',
      problem: { code: 'Corrupt' },
      latest: null,
      asOf: null,
    });
  });

  test('a verified checkpoint is shown with the time', async () => {
    expect((await cli('verify', `${uri}/gpt`, '--version', '1')).code).toBe(0);
    const { stdout } = await cli('runs', `${uri}/gpt`);
    expect(stdout).toMatch(/ 1, \d+ s ago$/m);
  });

  test('--state, --name and --sort choose and order', async () => {
    const names = async (...options: string[]) =>
      (await asJson('runs', uri, ...options)).runs.map((run: { name: string }) => run.name);
    expect(await names('--state', 'damaged')).toEqual(['team/broken']);
    expect(await names('--name', 'team', '--state', 'ok')).toEqual(['team/bert']);
    expect(await names('--sort', 'age')).toEqual(['team/broken', 'gpt', 'team/bert']);
    expect(await names('--sort', 'stored', '--state', 'ok')).toEqual(['gpt', 'team/bert']);
    expect(await names('--sort', 'attempts')).toEqual(['team/broken', 'gpt', 'team/bert']);
    const both = ['--state', 'ok', '--state', 'damaged'];
    expect(await names(...both)).toEqual(['gpt', 'team/bert', 'team/broken']);
  });

  test('runs that are denied and unreachable are shown, chosen, and late', async () => {
    registerAs('partly', (list) => (prefix, options) => {
      if (prefix.startsWith('gpt/')) throw new CheckpointError('Denied', 'not for you');
      if (prefix.startsWith('team/bert/')) throw new CheckpointError('TimedOut', 'no answer');
      return list(prefix, options);
    });
    const stateOf = async (...options: string[]) =>
      (await asJson('runs', 'partly://x', ...options)).runs.map(({ name, state }: Record<string, string>) => [
        name,
        state,
      ]);
    expect(await stateOf('--state', 'denied')).toEqual([['gpt', 'denied']]);
    expect(await stateOf('--state', 'unreachable')).toEqual([['team/bert', 'unreachable']]);
    expect(await stateOf('--state', 'empty')).toEqual([]);
    const { code, stdout, stderr } = await cli('runs', 'partly://x', '--max-age', '1h', '--name', 'gpt');
    expect([code, stderr]).toEqual([1, expect.stringContaining('partly://x/gpt: denied (Denied)')]);
    expect(stdout).toMatch(/^gpt +denied +\? +\? /m);
    expect(stdout).toContain('denied  gpt: not for you (Denied)');
  });

  test('retiring checkpoints are counted beside those that are kept', async () => {
    for (const version of [1, 2, 3]) await save('other/kept', version);
    const place = `${uri}/other/kept`;
    onTestFinished(() => rm(join(root, 'other'), { recursive: true }));
    expect((await cli('gc', place, '--keep', '1', '--grace', '1h', '--apply', '--force')).code).toBe(0);
    expect((await cli('runs', place)).stdout).toMatch(/ {2}2 \+1 retiring {2}/);
    expect((await asJson('runs', place)).runs).toMatchObject([{ retained: 2, retiring: 1, quarantined: 0 }]);
  });

  test('--max-age: status 1, and the late runs are named', async () => {
    const young = await cli('runs', `${uri}/gpt`, '--max-age', '1h');
    expect(young).toMatchObject({ code: 0, stderr: '' });
    const late = await cli('runs', uri, '--max-age', '1h', '--json');
    expect(late.code).toBe(1);
    expect(late.stderr).toContain('1 of 3 runs without a checkpoint in the last 60 min');
    expect(late.stderr).toContain(`${uri}/team/broken: damaged (Corrupt)`);
    expect(JSON.parse(late.stdout).late).toEqual([
      { uri: `${uri}/team/broken`, reason: 'damaged (Corrupt)' },
    ]);
  });

  test('--max-age: a run is late by the clock of the store', async () => {
    registerAs(
      'three-hours-on',
      (list) =>
        async function* (prefix, options) {
          for await (const page of list(prefix, options))
            yield { ...page, storeTimeMs: page.storeTimeMs + 3 * 3600_000 };
        },
    );
    const place = 'three-hours-on://x';
    const { code, stdout, stderr } = await cli('runs', place, '--max-age', '2h', '--state', 'ok');
    expect(code).toBe(1);
    expect(stderr).toBe(
      `holdfast: 2 of 2 runs without a checkpoint in the last 2 h: ${place}/gpt: 3 h old; ${place}/team/bert: 3 h old\n`,
    );
    expect(stdout).toMatch(/^gpt +ok +2 +3 h /m);
    expect((await cli('runs', place, '--max-age', '4h', '--state', 'ok')).code).toBe(0);
    const latest = await cli('latest', `${place}/gpt`, '--max-age', '2h', '--json');
    expect([latest.code, latest.stderr]).toEqual([
      1,
      `holdfast: version 2 of ${place}/gpt is 3 h old, more than 2 h\n`,
    ]);
    expect(JSON.parse(latest.stdout)).toMatchObject({ version: 2, isLate: true });
    expect(await cli('latest', `${place}/gpt`, '--max-age', '4h')).toMatchObject({ code: 0, stderr: '' });
  });

  test('--max-age: the age grows with the time since the look', async () => {
    let looks = 0;
    // Each look at the clock is two hours later.
    const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + 2 * 3600_000 * looks++ };
    const late = await callInProcess(['runs', `${uri}/gpt`, '--max-age', '1h'], { clock });
    expect([late.code, late.stderr]).toEqual([1, expect.stringMatching(/gpt: \d+ h old\n$/)]);
  });

  test('a wrong clock of this machine makes no run late', async () => {
    const { code } = await callInProcess(['runs', `${uri}/gpt`, '--max-age', '1h'], {
      clock: clockAhead(100 * 3600_000),
    });
    expect(code).toBe(0);
  });

  test('--prices adds the cost of a month', async () => {
    const path = join(root, 'prices.json');
    await writeFile(
      path,
      JSON.stringify({ currency: 'EUR', perGiBMonth: { 'file://': 1000, [`${uri}/gpt`]: 2000 } }),
    );
    const { runs, currency } = await asJson('runs', uri, '--prices', path, '--sort', 'cost', '--state', 'ok');
    expect(currency).toBe('EUR');
    expect(runs.map((run: { name: string; monthlyCost: number }) => [run.name, run.monthlyCost])).toEqual([
      ['gpt', expect.closeTo((10_000 / 1024 ** 3) * 2000)],
      ['team/bert', expect.closeTo((5000 / 1024 ** 3) * 1000)],
    ]);
    expect((await cli('runs', uri, '--prices', path)).stdout).toContain('EUR/MONTH');
  });

  test('--saves shows who is missing', async () => {
    const path = join(root, 'part.bin');
    await writeFile(path, 'part of writer 0');
    const options = ['--version', '1', '--writer', '0/2', '--attempt', 'a', '--timeout', '0'];
    expect((await cli('save', path, `${uri}/saving`, ...options)).code).toBe(3);
    const { runs } = await asJson('runs', `${uri}/saving`, '--saves');
    expect(runs[0]).toMatchObject({
      state: 'empty',
      latest: null,
      saves: [{ version: 1, writers: 2, delivered: [0], missing: [{ writer: 1 }] }],
    });
    const { runs: empty } = await asJson('runs', uri, '--state', 'empty');
    expect(empty).toMatchObject([{ name: 'saving', state: 'empty' }]);
    expect((await cli('runs', `${uri}/saving`, '--saves')).stdout).toContain('1: 1 of 2, missing writer 1');
    const late = await cli('runs', `${uri}/saving`, '--max-age', '1h');
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('no checkpoint') });
  });

  test('--watch shows the runs again, until it is stopped', async () => {
    const stop = new AbortController();
    let looks = 0;
    const sleep: Clock['sleep'] = async (ms, signal) => {
      if (ms !== 7000) return systemClock.sleep(ms, signal);
      looks += 1;
      if (looks === 3) stop.abort();
      signal?.throwIfAborted();
    };
    const clock = { ...systemClock, sleep };
    const { code, stdout } = await callInProcess(['runs', `${uri}/gpt`, '--watch', '--interval', '7s'], {
      clock,
      signal: stop.signal,
    });
    expect(code).toBe(0);
    expect(stdout.match(/every 7 s/g)).toHaveLength(3);
  });

  test('--watch on a terminal redraws in place what fits, and prints the last look at the end', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const stop = new AbortController();
    let looks = 0;
    const sleep: Clock['sleep'] = async (ms, signal) => {
      if (ms !== 7000) return systemClock.sleep(ms, signal);
      vi.advanceTimersByTime(100);
      looks += 1;
      if (looks === 2) stop.abort();
      signal?.throwIfAborted();
    };
    const { code, stdout, stderr } = await callInProcess(['runs', uri, '--watch', '--interval', '7s'], {
      clock: { ...systemClock, sleep },
      signal: stop.signal,
      terminal: { columns: 200, rows: 4 },
    });
    expect(code).toBe(0);
    expect(stderr).toContain('looking for runs');
    expect(stderr).toMatch(/every 7 s\nRUN .*\ngpt +ok /);
    // Four rows, one of which stays free.
    expect(stderr).not.toContain('team/bert');
    expect(stdout.match(/^RUN /gm)).toHaveLength(1);
    expect(stdout).toContain('team/bert');
    expect(stdout).not.toContain('every 7 s');
  });
});

describe('what runs does not accept', () => {
  test.each([
    [[], 'runs needs a URI', 2],
    [['ftp://x/y'], 'the scheme of the URI is unknown', 2],
    [['file:///tmp', '--max-age', '2'], '"2" has no unit', 2],
    [['file:///tmp', '--state', 'bad'], '"bad" is not one of ok, empty', 2],
    [['file:///tmp', '--sort', 'cost'], '--sort cost needs --prices', 2],
    [['file:///tmp', '--concurrency', '257'], '"257" is not a whole number from 1 to 256', 2],
    [['file:///tmp', '--interval', '5s'], '--interval needs --watch', 2],
    [['file:///tmp', '--prices', '/nowhere.json'], 'cannot be read: ENOENT', 2],
  ])('%j', async (args, message, exit) => {
    const { code, stderr } = await cli('runs', ...args);
    expect([code, stderr]).toEqual([exit, expect.stringContaining(message)]);
  });

  test.each([
    ['{', 'is not JSON'],
    ['[]', 'has another form'],
    ['{"currency":"USD","perGiBMonth":{}}', 'has no price'],
    ['{"currency":"","perGiBMonth":{"s3://":1}}', 'needs "currency"'],
    ['{"currency":"USD","perGiBMonth":{"s3://":-1}}', 'not a number from 0 on'],
    ['{"currency":"USD","perGiBMonth":{"s3://":1},"x":1}', 'unknown member "x"'],
  ])('a price file with %s', async (text, message) => {
    const path = join(root, 'bad.json');
    await writeFile(path, text);
    const { code, stderr } = await cli('runs', uri, '--prices', path);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('a place without a run is not found', async () => {
    const empty = await mkdtemp(join(tmpdir(), 'holdfast-no-runs-'));
    const { code, stderr } = await cli('runs', pathToFileURL(empty).href);
    expect([code, stderr]).toEqual([6, expect.stringContaining('no run at or below')]);
    await rm(empty, { recursive: true });
  });
});

test('latest --max-age prints the version of a young run', async () => {
  const young = await cli('latest', `${uri}/gpt`, '--max-age', '1h');
  expect(young).toMatchObject({ code: 0, stdout: '2\n', stderr: '' });
});
