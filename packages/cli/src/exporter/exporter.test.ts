import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { openCheckpointManager, openStore, registerStore } from '@holdfast/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cli } from '../in-process.ts';
import { Exporter, serveMetrics } from './exporter.ts';
import { metricsLines } from './metrics-text.ts';
import { Orphans } from './orphans.ts';

const PAGE = { text: () => 'page\n' };

function ask(url: string, options: { method?: string; host?: string } = {}) {
  return new Promise<{ status: number; text: string; type: string }>((resolve, reject) => {
    const { method = 'GET', host } = options;
    const asked = request(url, { method, ...(host && { headers: { host } }) }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, text, type: answer.headers['content-type'] ?? '' }),
      );
    });
    asked.on('error', reject).end();
  });
}

describe('serveMetrics', () => {
  test('answers on loopback at /metrics, and refuses other paths, methods and names of this machine', async () => {
    const { url, close } = await serveMetrics(PAGE, 0);
    expect(await ask(url)).toEqual({
      status: 200,
      text: 'page\n',
      type: 'text/plain; version=0.0.4; charset=utf-8',
    });
    expect((await ask(url.replace('/metrics', '/'))).status).toBe(404);
    expect((await ask(url, { method: 'POST' })).status).toBe(405);
    expect((await ask(url, { host: 'evil.example' })).status).toBe(403);
    expect((await ask(url, { host: 'localhost:1' })).status).toBe(200);
    await close();
  });

  test('a port that is taken is refused, and named', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    await expect(serveMetrics(PAGE, port)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: `port ${port} of 127.0.0.1 is taken by another program; --port takes another one`,
    });
    other.close();
  });
});

describe('metricsLines', () => {
  const run = (uri: string) => ({
    ...{
      uri,
      place: 's3://b',
      name: uri,
      state: 'ok' as const,
      problem: null,
      checkedAtMs: 2000,
      asOfMs: 1000,
    },
    ...{ storeTimeMs: 1000, runId: 'a', seq: 1, latest: null, writerCount: 4, attempt: 'a', lineage: 2 },
    ...{ epoch: 3, retainedCount: 5, retiringCount: 0, quarantinedCount: 0, storedBytes: 10 },
    ...{ referencedBytes: null, recentAttemptCount: null, recentFenceCount: null, historySinceMs: null },
    ...{ verifiedVersion: null, verifiedCommittedAtMs: null, verifiedAtMs: null, savesInProgress: null },
  });
  const place = { uri: 's3://b', refreshedAtMs: 3000, refreshDurationMs: 500, failureCount: 0 };
  const options = { programVersion: '1.2.3', runsMax: 2 };

  test('a value that is not known has no sample; labels are escaped', () => {
    const lines = [...metricsLines([{ ...place, runs: [run('s3://b/"x"\\\n')] }], options)];
    expect(lines).toContain('holdfast_stored_bytes{run="s3://b/\\"x\\"\\\\\\n"} 10');
    expect(lines).toContain('# TYPE holdfast_fenced_total counter');
    expect(lines.find((line) => line.startsWith('holdfast_fenced_total'))).toMatch(/ 3$/);
    expect(lines.some((line) => line.includes('holdfast_referenced_bytes'))).toBe(false);
    expect(lines.some((line) => line.includes('holdfast_missing_writers'))).toBe(false);
  });

  test('a directory that cannot be read is not counted as a run, and its state is told', () => {
    const failed = (uri: string, state: 'denied' | 'damaged', code: 'Denied' | 'Corrupt') => ({
      ...run(uri),
      ...{ asOfMs: null, state, problem: { code, message: 'no' } },
    });
    const runs = [failed('s3://b/a', 'denied', 'Denied'), failed('s3://b/c', 'damaged', 'Corrupt')];
    const lines = [...metricsLines([{ ...place, runs }], options)];
    expect(lines).toContain('holdfast_exporter_runs{place="s3://b"} 1');
    expect(lines).toContain('holdfast_run_state{run="s3://b/a",state="denied"} 1');
    expect(lines).toContain('holdfast_run_state{run="s3://b/c",state="damaged"} 1');
  });

  test('however many runs there are, the number of series is bounded; the others are counted', () => {
    const runs = Array.from({ length: 50 }, (_, index) => run(`s3://b/${index + 10}`));
    const lines = [
      ...metricsLines(
        [
          { ...place, runs },
          { ...place, uri: 's3://c', runs },
        ],
        options,
      ),
    ];
    const labels = new Set(lines.flatMap((line) => /run="([^"]*)"/.exec(line)?.[1] ?? []));
    expect([...labels]).toEqual(['s3://b/10', 's3://b/11']);
    expect(lines).toContain('holdfast_exporter_runs_omitted 48');
    const samples = lines.filter((line) => !line.startsWith('#'));
    expect(new Set(samples).size).toBe(samples.length);
  });
});

test('a store that never answers delays neither another place nor a scrape', async () => {
  registerStore('slowtape', {
    form: 'slowtape://x',
    open: async (uri, env) => {
      const { openStore } = await import('@holdfast/stores');
      const store = await openStore('memory://slow-tape', env);
      store.list = async function* (_, options) {
        await new Promise((_resolve, reject) =>
          options?.signal?.addEventListener('abort', () => reject(options.signal?.reason)),
        );
        yield* [];
      };
      return Object.assign(store, { uri });
    },
  });
  await cli('save', import.meta.filename, 'memory://quick', '--version', '4');
  const stop = new AbortController();
  const exporter = new Exporter({
    uris: ['slowtape://x', 'memory://quick'],
    intervalMs: 1000,
    runsMax: 10,
    programVersion: '1',
    fleet: {},
    clock: systemClock,
    onChange: () => undefined,
  });
  const running = exporter.run(stop.signal).catch(() => 'stopped');
  await expect.poll(() => exporter.text()).toContain('holdfast_latest_version{run="memory://quick"} 4');
  expect(exporter.text()).not.toContain('{run="slowtape');
  expect(exporter.text()).not.toContain('holdfast_exporter_runs{place="slowtape');
  stop.abort();
  expect(await running).toBe('stopped');
});

test('a place that cannot be listed is a failed search and no run; its runs stay, with another state', async () => {
  const path = await mkdtemp(join(tmpdir(), 'holdfast-locked-'));
  onTestFinished(() => rm(path, { recursive: true }));
  const directory = pathToFileURL(path).href;
  let isOpen = true;
  registerStore('locked', {
    form: 'locked://x',
    open: async (uri, env) => {
      const store = await openStore(directory, env);
      const list = store.list.bind(store);
      store.list = (prefix, options) => {
        if (!isOpen) throw new CheckpointError('Denied', 'not for you');
        return list(prefix, options);
      };
      return Object.assign(store, { uri });
    },
  });
  let nowMs = 5000;
  const changes: (string | null)[] = [];
  const options = { intervalMs: 1000, runsMax: 10, programVersion: '1', fleet: {} };
  const exporterOf = () =>
    new Exporter({
      ...{ ...options, uris: ['locked://x'] },
      clock: { ...systemClock, nowMs: () => nowMs },
      onChange: (_, problem) => changes.push(problem?.message ?? null),
    });
  const { signal } = new AbortController();
  await cli('save', import.meta.filename, `${directory}/r`, '--version', '4');
  const exporter = exporterOf();
  await exporter.refresh(signal);
  const [place, run] = ['{place="locked://x"}', 'run="locked://x/r"'];
  expect(exporter.text()).toContain(`holdfast_exporter_runs${place} 1\n`);
  [isOpen, nowMs] = [false, 9000];
  await exporter.refresh(signal);
  const text = exporter.text();
  expect(text).toContain(`holdfast_exporter_refresh_failures_total${place} 1\n`);
  expect(text).toContain(`holdfast_exporter_last_refresh_timestamp_seconds${place} 5\n`);
  expect(text).toContain(`holdfast_exporter_runs${place} 1\n`);
  expect(text).toContain(`holdfast_run_state{${run},state="denied"} 1\n`);
  expect(text).toContain(`holdfast_latest_version{${run}} 4\n`);
  expect(text).not.toContain('run="locked://x"');
  const later = exporterOf();
  await later.refresh(signal);
  expect(later.text()).toContain(`holdfast_exporter_refresh_failures_total${place} 1\n`);
  expect(later.text()).not.toMatch(/run="|holdfast_exporter_(runs|last_refresh_timestamp_seconds)\{/);
  isOpen = true;
  await exporter.refresh(signal);
  expect(exporter.text()).toContain(`holdfast_exporter_last_refresh_timestamp_seconds${place} 9\n`);
  expect(changes).toEqual(['not for you', 'not for you', null]);
});

describe('exporter', () => {
  test('--once prints the metrics', async () => {
    await cli('save', import.meta.filename, 'memory://once', '--version', '9');
    const { code, stdout } = await cli('exporter', 'memory://once', '--once');
    expect(code).toBe(0);
    expect(stdout).toContain('holdfast_latest_version{run="memory://once"} 9\n');
    expect(stdout).toContain('holdfast_exporter_runs{place="memory://once"} 1\n');
  });

  test('--orphans-every counts what nothing refers to, and nothing else', async () => {
    const uri = 'memory://orphaned';
    await cli('save', import.meta.filename, uri, '--version', '9');
    const ofOrphans = /^holdfast_orphan\S+ .*$/gm;
    const before = await cli('exporter', uri, '--once', '--orphans-every', '6h');
    expect(before.stdout.match(ofOrphans)).toEqual([
      `holdfast_orphaned_bytes{run="${uri}"} 0`,
      expect.stringMatching(/^holdfast_orphans_checked_timestamp_seconds\{run="memory:\/\/orphaned"\} \d/),
    ]);
    const store = await openStore(uri);
    await store.create('version_3/1.1/0.0-0123456789abcdef/left', new Uint8Array(1234));
    await store.close();
    const { stdout } = await cli('exporter', uri, '--once', '--orphans-every', '6h');
    expect(stdout).toContain(`\nholdfast_orphaned_bytes{run="${uri}"} 1234\n`);
    expect((await cli('exporter', uri, '--once')).stdout).not.toMatch(ofOrphans);
  });

  test('a run with damage has no orphaned bytes, and a run that fails does not stop the others', async () => {
    const [damaged, sound] = ['memory://orphans-damaged', 'memory://orphans-sound'];
    for (const uri of [damaged, sound]) await cli('save', import.meta.filename, uri, '--version', '9');
    const failures: string[] = [];
    let isOpen = true;
    const orphans = new Orphans({
      everyMs: 1,
      open: async (uri) => {
        if (!isOpen && uri === damaged) throw new CheckpointError('Denied', 'no');
        return openCheckpointManager(uri);
      },
      uris: () => [damaged, sound],
      clock: systemClock,
      onFailure: (uri, error) => failures.push(`${uri} ${(error as Error).message}`),
    });
    const { signal } = new AbortController();
    await orphans.pass(signal);
    expect([damaged, sound].map((uri) => orphans.factsOf(uri)?.orphanedBytes)).toEqual([0, 0]);
    const store = await openStore(damaged);
    for await (const { objects } of store.list('version_9/'))
      await store.deleteMany(objects.map(({ key }) => key));
    await store.close();
    await systemClock.sleep(5);
    await orphans.pass(signal);
    expect([damaged, sound].map((uri) => orphans.factsOf(uri)?.orphanedBytes)).toEqual([undefined, 0]);
    isOpen = false;
    await systemClock.sleep(5);
    await orphans.pass(signal);
    expect(failures).toEqual([`${damaged} no`]);
    await expect(orphans.run(AbortSignal.abort())).rejects.toMatchObject({ code: 'Aborted' });
  });

  test.each([
    [[], 'exporter needs a URI'],
    [['ftp://x'], 'the scheme of the URI is unknown'],
    [['memory://a', 'memory://a'], 'exporter was given a URI twice'],
    [['memory://a', '--port', '70000'], '"70000" is not a whole number from 0 to 65535'],
    [['memory://a', '--interval', '1ms'], '"1ms" is too short'],
    [['memory://a', '--orphans-every', '1s'], '"1s" is too short'],
    [['memory://a', '--concurrency', '257'], '"257" is not a whole number from 1 to 256'],
    [['memory://a', '--runs-max', '0'], '"0" is not a whole number from 1'],
    [['memory://a', '--once', '--port', '0'], '--once takes neither --port nor --interval'],
  ])('%j is refused', async (args, message) => {
    const { code, stderr } = await cli('exporter', ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});
