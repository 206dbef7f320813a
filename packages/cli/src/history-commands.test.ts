/** Output and exit status of rollback, fork, diff, lease, log, and of the outcome of verify. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError } from '@holdfast/core/contract';
import { openStore, registerStore } from '@holdfast/stores';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { splitVersion } from './commands/fork.ts';
import { versionsText } from './commands/log.ts';
import { asJson, cli } from './in-process.ts';

let directory: string;
let count = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-history-'));
  await writeFile(join(directory, 'a.bin'), 'always the same');
});
afterAll(() => rm(directory, { recursive: true }));

const newUri = () => `memory://history-${count++}`;

/** Each version has its own file. */
async function savedRun(...versions: number[]): Promise<string> {
  const uri = newUri();
  for (const version of versions) {
    await writeFile(join(directory, 'b.bin'), `of version ${version}`);
    const saved = await cli('save', directory, uri, '--version', String(version));
    if (saved.code !== 0) throw new Error(saved.stderr);
  }
  return uri;
}

/** Expects this exit status, these words in the error, and no result. */
async function refused(code: number, words: string, ...args: string[]) {
  const ended = await cli(...args);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(ended.stderr).toContain(words);
}

describe('rollback', () => {
  test('says what is the latest, what is left behind, and what to do; the log has the reason', async () => {
    const uri = await savedRun(1, 2, 3);
    const done = await cli('rollback', uri, '--to', '1', '--reason', 'loss went up');
    expect(done).toEqual({
      code: 0,
      stdout:
        'rolled back  version 1 is the latest   lineage 2\n' +
        '  2 versions left behind (2 and 3), until retention removes them\n' +
        '  writers that were running are fenced; start them again\n',
      stderr: '',
    });
    expect((await cli('latest', uri)).stdout).toBe('1\n');
    expect((await cli('list', uri)).stdout).toMatch(
      /^ +3@1 .* left behind\n +2@1 .* left behind\n +1 .* latest$/m,
    );
    expect((await cli('log', uri, '--limit', '1')).stdout).toMatch(/rollback {2,}1@1 .* loss went up\n$/);
    expect(await asJson('rollback', uri, '--to', '1', '--reason', 'again')).toEqual({
      uri,
      version: 1,
      id: { lineage: 1, epoch: 1, version: 1 },
      lineage: 3,
      leftBehind: [],
      reason: 'again',
    });
    await refused(
      6,
      'version 3 was left behind by an earlier rollback',
      'rollback',
      uri,
      '--to',
      '3',
      '--reason',
      'x',
    );
  });

  test('without version or reason, to what never was, of no run: clear, and the latest stays', async () => {
    const uri = await savedRun(1, 2);
    await refused(2, 'rollback needs --reason', 'rollback', uri, '--to', '1');
    await refused(2, 'rollback needs --to and --reason', 'rollback', uri);
    await refused(2, 'needs a reason of 1 to 1000', 'rollback', uri, '--to', '1', '--reason', ' ');
    await refused(2, '--to: "x" is not a version', 'rollback', uri, '--to', 'x', '--reason', 'y');
    await refused(6, 'there is no version 9', 'rollback', uri, '--to', '9', '--reason', 'x');
    await refused(6, 'there is no run', 'rollback', newUri(), '--to', '1', '--reason', 'x');
    expect((await cli('latest', uri)).stdout).toBe('2\n');
  });
});

describe('fork', () => {
  test('a run of its own with one version; JSON has the documented names', async () => {
    const uri = await savedRun(1, 2);
    const to = newUri();
    const forked = await cli('fork', `${uri}@1`, to);
    expect([forked.code, forked.stdout]).toEqual([
      0,
      expect.stringMatching(new RegExp(`^forked {2,}version 1 → ${to} {2,}27 B in 2 files {2,}`)),
    ]);
    expect((await cli('latest', to)).stdout).toBe('1\n');
    const other = newUri();
    expect(await asJson('fork', uri, other)).toEqual({
      from: uri,
      to: other,
      version: 2,
      fromId: { lineage: 1, epoch: 2, version: 2 },
      id: { lineage: 1, epoch: 1, version: 2 },
      sizeBytes: 27,
      fileCount: 2,
      reusedBytes: 0,
      durationMs: expect.any(Number),
    });
  });

  test('into a run with checkpoints, into itself, of a version that is not there, of no run', async () => {
    const uri = await savedRun(1);
    const to = await savedRun(7);
    await refused(7, 'it already holds version 7', 'fork', uri, to);
    await refused(2, 'both are the same run', 'fork', uri, uri);
    await refused(6, `\`holdfast list ${uri}\` shows the versions`, 'fork', `${uri}@4`, newUri());
    await refused(6, 'there is no run', 'fork', newUri(), newUri());
    await refused(2, '"99999999999999999999" is not a version', 'fork', `${uri}@99999999999999999999`, to);
    await refused(2, 'fork needs URI2', 'fork', uri);
    expect((await cli('latest', to)).stdout).toBe('7\n');
  });

  test('a URI may have an @ of its own: the last one with digits only is the version', () => {
    expect(splitVersion('s3://b/run')).toEqual({ uri: 's3://b/run', version: undefined });
    expect(splitVersion('s3://b/run@v1')).toEqual({ uri: 's3://b/run@v1', version: undefined });
    expect(splitVersion('s3://b/run@7@12')).toEqual({ uri: 's3://b/run@7', version: 12n });
    expect(splitVersion('s3://b/r?endpoint=http://u@h:9000@0').version).toBe(0n);
  });
});

describe('diff', () => {
  test('by file; JSON has the documented names; equal versions say so', async () => {
    const uri = await savedRun(1, 20);
    expect(await cli('diff', uri, '1', 'latest')).toEqual({
      code: 0,
      stdout: 'version 1 → 20\nchanged   b.bin   12 B → 13 B\nthe same: 1 file, 15 B\n',
      stderr: '',
    });
    expect((await cli('diff', uri, '20', '20')).stdout).toBe(
      'version 20 → 20\nall the same: 2 files, 28 B\n',
    );
    expect(await asJson('diff', uri, '1', '20')).toEqual({
      uri,
      before: { lineage: 1, epoch: 1, version: 1 },
      after: { lineage: 1, epoch: 2, version: 20 },
      files: [
        { name: 'a.bin', change: 'same', beforeBytes: 15, afterBytes: 15, tensors: null, note: '' },
        { name: 'b.bin', change: 'changed', beforeBytes: 12, afterBytes: 13, tensors: null, note: '' },
      ],
      bytesRead: 0,
    });
    await refused(2, 'B: "newest" is not a version', 'diff', uri, '1', 'newest');
    await refused(2, 'diff needs B', 'diff', uri, '1');
    await refused(6, 'there is no version 9', 'diff', uri, '1', '9');
    await refused(6, 'no run at', 'diff', newUri(), '1', '9');
  });
});

describe('lease', () => {
  test('taken, listed, released; JSON has the documented names', async () => {
    const uri = await savedRun(1);
    const taken = await asJson('lease', uri, '--version', '1', '--for', '2h', '--reader', 'eval');
    expect(taken).toEqual({
      uri,
      id: expect.stringMatching(/^1\.1\.1\/eval-[0-9a-f]{16}$/),
      key: `leases/${taken.id}.json`,
      version: 1,
      checkpoint: { lineage: 1, epoch: 1, version: 1 },
      reader: 'eval',
      process: { host: expect.any(String), pid: expect.any(Number) },
      createdAt: expect.any(String),
      ageMs: 0,
      expiresAt: expect.any(String),
      isExpired: false,
    });
    expect(Date.parse(taken.expiresAt) - Date.parse(taken.createdAt)).toBe(7_200_000);
    const [titles, row] = (await cli('lease', uri, '--list')).stdout.split('\n');
    expect(titles).toMatch(/^VERSION {2,}READER {2,}BY +TAKEN {2,}STATE {2,}ID$/);
    expect(row).toMatch(/^ +1 {2,}eval {2,}\S+ +\d+ s ago +2 h left +1\.1\.1\/eval-/);
    expect((await cli('lease', uri, '--release', taken.id)).stdout).toBe(`released  ${taken.id}\n`);
    expect(await asJson('lease', uri, '--release', taken.id)).toEqual({ uri, id: taken.id, wasThere: false });
    expect((await cli('lease', uri, '--list')).stdout).toBe('no lease\n');
    const text = (await cli('lease', uri, '--for', '1h')).stdout;
    expect(text).toMatch(
      /^leased {2,}version 1 until .* UTC {2,}1\.1\.1\/reader-.*\n {2}`holdfast lease .* ends it before\n$/,
    );
  });

  test('bad input: each is said, and no lease is left', async () => {
    const uri = await savedRun(1);
    await refused(2, 'lease needs --for, --release or --list', 'lease', uri);
    await refused(2, '--for and --list cannot be combined', 'lease', uri, '--for', '1h', '--list');
    await refused(2, '"31d" is too long; 30d is the longest', 'lease', uri, '--for', '31d');
    await refused(2, '--for: "2" has no unit', 'lease', uri, '--for', '2');
    await refused(2, 'reader "a b" is not', 'lease', uri, '--for', '1h', '--reader', 'a b');
    await refused(2, '"x" is not a lease id', 'lease', uri, '--release', 'x');
    await refused(6, 'there is no version 9', 'lease', uri, '--for', '1h', '--version', '9');
    await refused(6, 'no run at', 'lease', newUri(), '--list');
    expect((await asJson('lease', uri, '--list')).leases).toEqual([]);
  });
});

describe('log and verify', () => {
  test('a decision on many versions shows how many, and which as far as they fit', () => {
    const ids = (...versions: bigint[]) => versions.map((version) => ({ lineage: 1, epoch: 1, version }));
    expect([versionsText([], 1), versionsText(ids(7n), 1), versionsText(ids(7n), 2)]).toEqual([
      '',
      '7',
      '7@1',
    ]);
    expect(versionsText(ids(9n, 10n), 1)).toBe('2 versions: 9 and 10');
    const many = Array.from({ length: 11 }, (_, index) => BigInt(1100 - index * 100));
    expect(versionsText(ids(...many), 1)).toBe('11 versions: 100, 200, 300 … 1100');
  });

  test('a verified version is marked so, unless --no-record; the level says what was compared', async () => {
    const uri = await savedRun(1);
    expect((await asJson('verify', uri, '--no-record')).recorded).toBe('none');
    expect((await asJson('list', uri)).checkpoints[0].isVerified).toBe(false);
    expect((await asJson('verify', uri)).recorded).toBe('verified');
    expect((await asJson('list', uri)).checkpoints[0].isVerified).toBe(true);
    const said = async (level: string) =>
      (await cli('verify', uri, '--level', level)).stdout.trim().split(/ {2,}/).at(-1);
    expect(await said('0')).toMatch(
      /^records(, sizes and stored checksums| and sizes; this store keeps no checksums)$/,
    );
    expect(await said('1')).toMatch(/^samples, records/);
    expect(await said('2')).toBe('every byte');
  });

  test('what a second check does not find again is doubtful: no damage is said, nothing is quarantined', async () => {
    const uri = await savedRun(1);
    let wrongAnswersLeft = 1;
    registerStore('forgetful', {
      form: 'forgetful://name',
      open: async (_uri, env) => {
        const store = await openStore(uri, env);
        const readInto = store.readInto.bind(store);
        store.readInto = async (key, ...rest) => {
          const isPayload = key.endsWith('/b.bin');
          if (isPayload && wrongAnswersLeft-- > 0)
            throw new CheckpointError('NotFound', `there is no ${key}`);
          return readInto(key, ...rest);
        };
        return store;
      },
    });
    const ended = await cli('verify', 'forgetful://name', '--quarantine');
    expect([ended.code, ended.stdout]).toEqual([75, expect.stringMatching(/^doubtful {2}b\.bin /)]);
    expect(ended.stderr).toContain('it is not known whether version 1 is damaged: 1 of 2 files');
    expect(ended.stderr).toContain('`holdfast doctor forgetful://name`');
    expect(ended.stderr).not.toContain('--quarantine');
    wrongAnswersLeft = 1;
    expect(await asJson('verify', 'forgetful://name', '--quarantine')).toMatchObject({
      isDoubtful: true,
      recorded: 'none',
      error: { code: 'Unavailable' },
    });
    expect((await asJson('list', uri)).checkpoints[0].state).toBe('live');
  });
});
