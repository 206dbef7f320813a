/**
 * `holdfast preempt`: output and exit status. The command's clock runs twenty times as fast as that
 * of the saves.
 */

import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { memoryBucket } from '@holdfast/core/store';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../run-cli.ts';
import { lossError } from './describe.ts';
import type { WatchedVersion } from './wait-for-begun.ts';

const FAST = {
  nowMs: systemClock.nowMs,
  monotonicMs: () => systemClock.monotonicMs() * 20,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 20, signal),
};

let directory: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-preempt-'));
});
afterAll(() => rm(directory, { recursive: true }));

/** One call in this process. */
const cli = (...argv: string[]) => cliThen(async () => undefined, ...argv);

/**
 * The same, but `act` begins once the call reports that it waits. Resolves when both have ended.
 */
async function cliThen(act: () => Promise<void>, ...argv: string[]) {
  let [stdout, stderr] = ['', ''];
  let acting: Promise<void> | undefined;
  const outlasted: string[] = [];
  const code = await runCli(argv, {
    env: {},
    stdout: { write: (text) => (stdout += text) },
    stderr: {
      write: (text) => {
        stderr += text;
        if (text.includes('waiting')) acting ??= act();
      },
    },
    clock: FAST,
    programVersion: '1.2.3',
    ask: null,
    listenForInterrupt: () => ({
      signal: new AbortController().signal,
      outlastSigterm: (forMs) => outlasted.push(`${forMs}`),
      deliverEarly: () => undefined,
      dispose: () => undefined,
    }),
  });
  await acting;
  return { code, stdout, stderr, outlasted };
}

/** Makes the text independent of the speed of the machine. */
const withoutAges = (text: string) => text.replaceAll(/committed (just now|\d+ s ago)/g, 'committed AGO');

const newUri = () => `memory://preempt-${count++}`;

/** Writer `writer` of `of` saves its own file. */
async function save(uri: string, version: number, writer = 0, of = 1, ...more: string[]) {
  const file = join(directory, `of-writer-${writer}`);
  await writeFile(file, randomUUID()); // 36 bytes.
  const position = ['--version', `${version}`, '--writer', `${writer}/${of}`, '--attempt', `of-${of}`];
  const ended = await cli('save', file, uri, ...position, ...more);
  if (ended.code !== 0) throw new Error(ended.stderr);
}

describe('preempt: nothing is lost', () => {
  it('nothing was under way: the newest durable version, exit 0', async () => {
    const uri = newUri();
    await save(uri, 1200);
    const ended = await cli('preempt', uri);
    expect(ended).toMatchObject({ code: 0, stderr: '', outlasted: ['25000'] });
    const line = 'durable    version 1200   36 B in 1 file   committed AGO   no save was in progress\n';
    expect(withoutAges(ended.stdout)).toBe(line);
    expect((await cli('preempt', uri, '--version', '1200', '-q')).stdout).toContain(
      '   nothing to wait for\n',
    );
    expect((await cli('preempt', uri, '--version', '7')).stdout).toContain(
      '   nothing to wait for   7 skipped\n',
    );
  });

  it('what was waited for is committed meanwhile: it is said at first sight and in the end', async () => {
    const uri = newUri();
    await save(uri, 1300, 0, 2, '--no-wait');
    const finish = () => save(uri, 1300, 1, 2);
    const ended = await cliThen(finish, 'preempt', uri, '--deadline', '60s', '--progress', 'plain');
    expect(ended.code).toBe(0);
    expect(ended.stderr).toMatch(
      /^waiting {2,}version 1300 {2,}writer 1 of 2 has not delivered {2,}\d+ s left\n$/,
    );
    expect(ended.stdout).toMatch(
      /^durable {2,}version 1300 .* in 2 files {2,}committed .* {2,}waited [\d.]+ /,
    );
  });

  it('--json and --progress json: documented fields, and events', async () => {
    const uri = newUri();
    await save(uri, 5, 0, 2, '--no-wait');
    await save(uri, 6, 0, 2, '--no-wait');
    const finish = () => save(uri, 6, 1, 2);
    const ended = await cliThen(finish, 'preempt', uri, '--deadline', '60s', '--json', '--progress', 'json');
    const told = JSON.parse(ended.stdout);
    expect(Object.keys(told)).toEqual(['uri', 'durable', 'committed', 'passedOver', 'lost', 'waitedMs']);
    expect(told).toMatchObject({ uri, durable: { version: 6 }, committed: [6], passedOver: [5], lost: [] });
    const events = ended.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'waiting', version: 6, missingWriters: [1] }),
    );
  });
});

describe('preempt: something is lost', () => {
  it('the writers that have not delivered, what had arrived, what is left and how old it is; Incomplete, exit 3', async () => {
    const uri = newUri();
    await save(uri, 1200);
    for (const writer of [0, 2]) await save(uri, 1300, writer, 4, '--no-wait');
    const ended = await cli('preempt', uri, '--deadline', '10s', '-q');
    expect(ended).toMatchObject({ code: 3, stdout: '', outlasted: ['10000'] });
    expect(withoutAges(ended.stderr)).toBe(
      'holdfast: version 1300 did not become durable within 10 s: writers 1 and 3 of 4 have not delivered\n' +
        '  writer 1 never joined\n' +
        '  writer 3 never joined\n' +
        '  72 B of version 1300 had arrived\n' +
        '  newest durable: version 1200, committed AGO; what was trained since is lost\n' +
        `  \`holdfast commit ${uri} --version 1300\` finishes it if its writers still deliver before the job starts again\n` +
        '  (Incomplete, exit 3)\n',
    );
  });

  it('several versions, a run without a checkpoint; the same as JSON', async () => {
    const uri = newUri();
    for (const version of [5, 6]) await save(uri, version, 1, 10, '--no-wait');
    const ended = await cli('preempt', uri, '--deadline', '10s', '--json');
    expect(ended.code).toBe(3);
    expect(ended.stderr).toContain('holdfast: versions 5 and 6 did not become durable within 10 s\n');
    expect(ended.stderr).toContain(
      '  version 6: writers 0, 2, 3, 4, 5, 6, 7 and 2 more of 10 have not delivered\n',
    );
    expect(ended.stderr).toContain('  writer 8 never joined\n  1 more\n');
    expect(ended.stderr).toContain('the run has no checkpoint to load: all that was trained is lost\n');
    const { durable, lost, error } = JSON.parse(ended.stdout);
    expect([durable, error.code]).toEqual([null, 'Incomplete']);
    expect(lost).toMatchObject([
      { version: 5, worldSize: 10, deliveredWriters: [], uploadedBytes: 36 },
      {
        version: 6,
        deliveredWriters: [1],
        missing: expect.arrayContaining([{ writer: 9, detail: 'writer 9 never joined' }]),
      },
    ]);
  });

  it('the run was taken over meanwhile: the error does not advise to finish it', async () => {
    const uri = newUri();
    await save(uri, 5, 0, 2, '--no-wait');
    const takeOver = () => save(uri, 4, 0, 3, '--no-wait');
    const ended = await cliThen(takeOver, 'preempt', uri, '--deadline', '60s');
    expect(ended.code).toBe(3);
    expect(ended.stderr).toMatch(/version 5.*: the run was taken over or rolled back/);
    expect(ended.stderr).not.toContain('--version 5');
  });

  it('the store fell silent: that is said beside what was known then', () => {
    const error = new CheckpointError('Unavailable', 'connection refused');
    const watched = {
      version: 7n,
      fate: 'open',
      begun: null,
      wasOpen: true,
      wasComplete: false,
      refusal: null,
    };
    const lost = lossError(
      {
        durable: null,
        versions: [watched as WatchedVersion],
        waitedMs: 25_000,
        silent: { forMs: 12_000, error },
      },
      { uri: 'file:///a run', deadlineMs: 25_000, nowMs: 0, version: 7n },
    );
    expect(lost.context['advice']).toEqual([
      'the store has not answered for 12 s (connection refused); this is what was known before that',
      'the run has no checkpoint to load: all that was trained is lost',
      "`holdfast commit 'file:///a run' --version 7` finishes it if its writers still deliver before the job starts again",
    ]);
  });

  it('no run, and a run in which nothing was ever begun: NotFound, exit 6', async () => {
    const uri = newUri();
    expect((await cli('preempt', uri)).stderr).toBe(
      `holdfast: no run at ${uri}\n  check the URI; a run begins with its first save\n  (NotFound, exit 6)\n`,
    );
    await save(uri, 5, 0, 2, '--no-wait');
    await save(uri, 6, 0, 3, '--no-wait');
    const bucket = memoryBucket(uri.slice('memory://'.length));
    for (const key of bucket.keys()) if (key.startsWith('version_6/')) bucket.remove(key);
    const ended = await cli('preempt', uri);
    expect(ended.code).toBe(6);
    expect(ended.stderr).toContain('has no checkpoint to load, and no save was seen in progress\n');
  });

  it.each([['0'], ['25'], ['2d']])('--deadline %s: usage, exit 2', async (deadline) => {
    expect((await cli('preempt', newUri(), '--deadline', deadline)).code).toBe(2);
  });
});
