/** `runs` on runs in directories, and `latest --max-age`. */

import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Clock, systemClock } from '@holdfast/core/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asJson, callInProcess, cli } from '../in-process.ts';

let root: string;
let uri: string;

/** Saves a version of a run, by two attempts if it is asked for. */
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
  });

  test('--max-age: status 1, and the late runs are named; the age grows with the time since the look', async () => {
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
});

describe('what runs does not accept', () => {
  test.each([
    [[], 'runs needs a URI', 2],
    [['ftp://x/y'], 'the scheme of the URI is unknown', 2],
    [['file:///tmp', '--max-age', '2'], '"2" has no unit', 2],
    [['file:///tmp', '--state', 'bad'], '"bad" is not one of ok, empty', 2],
    [['file:///tmp', '--sort', 'cost'], '--sort cost needs --prices', 2],
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

describe('latest --max-age', () => {
  test('prints the version; status 1 if it is too old by the clock of the store', async () => {
    const gpt = `${uri}/gpt`;
    expect(await cli('latest', gpt, '--max-age', '1h')).toMatchObject({ code: 0, stdout: '2\n', stderr: '' });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const late = await cli('latest', gpt, '--max-age', '1s', '--json');
    expect(late.code).toBe(1);
    expect(late.stderr).toMatch(/version 2 of .*gpt is \d+ s old, more than 1 s/);
    expect(JSON.parse(late.stdout)).toMatchObject({ version: 2, isLate: true });
  });
});
