/** The exporter, scraped by a real Prometheus, with the alert rules and the dashboard of docs. */

import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { callInProcess } from '@holdfast/cli/internal/in-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../servers/start-server.ts';
import { describeOnPrometheus, type Prometheus, query, startPrometheus } from './prometheus.ts';

const MONITORING = fileURLToPath(new URL('../../docs/monitoring/', import.meta.url));
const RULES = join(MONITORING, 'alerts.yaml');
const run = promisify(execFile);

/** Every expression of the dashboard. */
async function dashboardExpressions(): Promise<string[]> {
  const { panels } = JSON.parse(await readFile(join(MONITORING, 'dashboard.json'), 'utf8')) as {
    panels: { targets?: { expr: string }[] }[];
  };
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

describeOnPrometheus('the files of docs/monitoring', (programs) => {
  test('promtool accepts the alert rules, and their tests pass', async () => {
    const { stdout } = await run(programs().promtool, ['check', 'rules', RULES]);
    expect(stdout).toContain('SUCCESS: 9 rules found');
    const tests = (await readdir(MONITORING)).filter((name) => name.endsWith('.test.yaml'));
    expect(tests).toHaveLength(2);
    await run(programs().promtool, ['test', 'rules', ...tests], { cwd: MONITORING });
  });

  describe('a Prometheus that scrapes the exporter', () => {
    const stop = new AbortController();
    let root: string;
    let uri: string;
    let port: number;
    let exporting: Promise<unknown>;
    let prometheus: Prometheus;

    const save = async (name: string, version: number, ...options: string[]) => {
      const path = join(root, 'model.bin');
      await writeFile(path, `of version ${version}`.padEnd(5000));
      return callInProcess(['save', path, `${uri}/${name}`, '--version', `${version}`, ...options]);
    };
    /** Asks again until the answer has the form, since a scrape may be under way. */
    const until = async (expression: string, isRight: (values: Map<string, number>) => boolean) => {
      const endMs = performance.now() + 30_000;
      for (;;) {
        const found = await query(prometheus, expression);
        const values = new Map(found.map(({ metric, value }) => [metric['run'] ?? '', value]));
        if (isRight(values)) return values;
        if (performance.now() > endMs) throw new Error(`${expression}: ${JSON.stringify([...values])}`);
        await sleep(200);
      }
    };

    beforeAll(async () => {
      root = await mkdtemp(join(tmpdir(), 'holdfast-exporter-'));
      uri = pathToFileURL(root).href;
      for (const version of [1, 2]) await save('gpt', version);
      expect((await callInProcess(['verify', `${uri}/gpt`])).code).toBe(0);
      await save('a "quoted"\\name', 5);
      await save('saving', 1, '--writer', '0/2', '--attempt', 'a', '--timeout', '0');
      port = await freePort();
      exporting = callInProcess(['exporter', uri, '--port', `${port}`, '--interval', '1s'], {
        signal: stop.signal,
      });
      prometheus = await startPrometheus(`127.0.0.1:${port}`, [RULES]);
    }, 120_000);
    afterAll(async () => {
      stop.abort();
      await exporting;
      await prometheus?.stop();
      await rm(root, { recursive: true });
    });

    test('has the facts of each run, whatever its name', async () => {
      const versions = await until('holdfast_latest_version', ({ size }) => size === 2);
      expect(versions).toEqual(
        new Map([
          [`${uri}/gpt`, 2],
          [`${uri}/a%20"quoted"\\name`, 5],
        ]),
      );
      const [commit] = await query(
        prometheus,
        `time() - holdfast_last_commit_timestamp_seconds{run="${uri}/gpt"}`,
      );
      expect(commit?.value).toBeGreaterThanOrEqual(-1);
      expect(commit?.value).toBeLessThan(120);
      const ofGpt = async (metric: string) =>
        (await query(prometheus, `${metric}{run="${uri}/gpt"}`))[0]?.value;
      expect(await ofGpt('holdfast_stored_bytes')).toBe(10_000);
      expect(await ofGpt('holdfast_attempts_total')).toBe(2);
      expect(await ofGpt('holdfast_fenced_total')).toBe(1);
      expect(await ofGpt('holdfast_latest_bytes')).toBe(5000);
      expect(await ofGpt('holdfast_writers')).toBe(1);
      const verified = await ofGpt('time() - holdfast_last_verified_timestamp_seconds');
      expect(verified).toBeLessThan(120);
    });

    test('sees who is missing', async () => {
      const missing = await until('holdfast_missing_writers > 0', ({ size }) => size > 0);
      expect([...missing]).toEqual([[`${uri}/saving`, 1]]);
    });

    test('sees a commit, a new run, and damage, which fires its alert; the others stay', async () => {
      await save('gpt', 3);
      await save('new', 1);
      const versions = await until('holdfast_latest_version', (found) => found.size === 3);
      await until('holdfast_latest_version', (found) => found.get(`${uri}/gpt`) === 3);
      expect(versions.get(`${uri}/new`)).toBe(1);
      const catalog = join(root, 'new/catalog');
      const newest = (await readdir(catalog)).sort().at(-1) as string;
      await chmod(join(catalog, newest), 0o644);
      await writeFile(join(catalog, newest), 'damaged');
      const firing = await until(
        'ALERTS{alertname="HoldfastRunDamaged",alertstate="firing"}',
        ({ size }) => size > 0,
      );
      expect([...firing.keys()]).toEqual([`${uri}/new`]);
      const ok = await until('holdfast_run_state{state="ok"} == 1', ({ size }) => size === 2);
      expect(ok.has(`${uri}/gpt`)).toBe(true);
      // The last known facts stay, and say since when they are known.
      expect((await query(prometheus, `holdfast_latest_version{run="${uri}/new"}`))[0]?.value).toBe(1);
    });

    test('accepts every expression of the dashboard, and each has an answer or names known metrics', async () => {
      const once = await callInProcess(['exporter', uri, '--once', '--orphans-every', '1h']);
      const known = new Set([...once.stdout.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
      const expressions = await dashboardExpressions();
      expect(expressions.length).toBeGreaterThan(8);
      for (const expression of expressions) {
        await query(prometheus, expression.replaceAll('$run', '.*').replaceAll('$__rate_interval', '1m'));
        for (const [name] of expression.matchAll(/holdfast_[a-z_]+/g)) expect(known).toContain(name);
      }
    });

    test('promtool finds nothing to complain about in the metrics', async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const checking = run(programs().promtool, ['check', 'metrics']);
      checking.child.stdin?.end(text);
      expect(await checking).toMatchObject({ stdout: '', stderr: '' });
    });
  });
});
