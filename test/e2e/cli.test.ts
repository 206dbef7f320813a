/** The command line on a local disk: the effect, output and exit status of each command. */

import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  cellsOf,
  contentOf,
  FILES,
  FROM_SOURCES,
  HOLDFAST,
  holdfast,
  newPlace,
  recoverToken,
  run,
  savedPlace,
  writeFiles,
} from './holdfast-process.ts';

const json = (text: string) => JSON.parse(text);

describe('save, look, restore', () => {
  it('what was saved comes back, byte for byte', async () => {
    const place = await savedPlace(1);
    const restored = await holdfast(['restore', place.uri, place.path('out')]);
    expect(restored.code).toBe(0);
    expect(restored.stdout).toMatch(
      /^restored {2,}version 1 {2,}294 KiB {2,}\d.* {2,}every byte verified\n$/,
    );
    expect(cellsOf(restored.stderr)).toEqual([[`version 1 → ${place.path('out')}`, '3 files', '294 KiB']]);
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(place.path('ckpt')));
  });

  it('save says what it did; the first version is 0 and the next one higher', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const first = await holdfast(['save', source, place.uri]);
    expect(first.stdout).toMatch(
      /^committed {2,}version 0 {2,}294 KiB in 3 files {2,}\d+(\.\d+)? m?s {2,}latest\n$/,
    );
    expect(first.stderr).toBe(`version 0 → ${place.uri}   writer 0 of 1 · epoch 1\n`);
    const second = await holdfast(['save', source, place.uri, '--json']);
    expect(json(second.stdout)).toMatchObject({ version: 1, referencedBytes: 0 });
    const third = await holdfast(['save', source, place.uri, '--json']);
    expect(json(third.stdout)).toEqual({
      uri: place.uri,
      version: 2,
      id: { lineage: 1, epoch: 3, version: 2 },
      isCommitted: true,
      wasCommittedBefore: false,
      isAnnotated: false,
      isRetiring: false,
      sizeBytes: 301_005,
      referencedBytes: 301_005,
      suspicions: ['none of the 3 files has changed since version 1'],
      fileCount: 3,
      writer: { index: 0, count: 1 },
      life: null,
      missingWriters: [],
      voided: [],
      durationMs: expect.any(Number),
    });
  });

  it('files are saved under their own names', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    expect((await holdfast(['save', `${source}/layers/0.bin`, `${source}/notes.txt`, place.uri])).code).toBe(
      0,
    );
    const shown = json((await holdfast(['show', place.uri, '--json'])).stdout);
    expect(shown.files.map((file: { name: string }) => file.name)).toEqual(['0.bin', 'notes.txt']);
  });

  it('latest prints the version and nothing else; list, show and log tell the rest', async () => {
    const place = await savedPlace(1, 12);
    expect(await holdfast(['latest', place.uri])).toEqual({ code: 0, stdout: '12\n', stderr: '' });

    const listed = (await holdfast(['list', place.uri])).stdout.split('\n');
    expect(listed[0]).toMatch(/^VERSION {2,}COMMITTED {2,}FILES {2,}SIZE {2,}METRICS {2,}STATE$/);
    expect(listed[1]).toMatch(
      /^ +12 {2,}(\S.* ago|just now) +3 {2,}294 KiB {2,}loss 1\.8 {2,}latest, best loss$/,
    );
    expect(listed[2]).toMatch(/ 294 KiB {2,}loss 2\.9$/);
    expect(listed[3]).toBe('2 versions · 588 KiB');

    const shown = await holdfast(['show', place.uri, '--version', '1']);
    expect(shown.stdout).toMatch(/^version {2,}1\nrun {2,}file:/);
    expect(shown.stdout).toMatch(
      /committed {2,}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(.*\) by \S+, process \d+\n/,
    );
    expect(shown.stdout).toMatch(/model\.bin {2,}293 KiB {2,}0 {2,}[0-9a-f]{8} {2,}version_1\//);

    const log = await holdfast(['log', place.uri, '--limit', '3']);
    expect(log.stdout.split('\n').map((line) => line.trim().split(/ {2,}/)[2])).toEqual([
      'WHAT',
      'commit',
      'takeover',
      'commit',
      undefined,
    ]);
  });

  it('JSON of list, show, log, latest, verify, restore and commit has the documented names', async () => {
    const place = await savedPlace(3);
    const asJson = async (...args: string[]) => json((await holdfast([...args, '--json'])).stdout);
    const summary = {
      version: 3,
      id: { lineage: 1, epoch: 1, version: 3 },
      sizeBytes: 301_005,
      storedBytes: 301_005,
      bases: [],
      fileCount: 3,
      metrics: { loss: 2.7 },
      state: 'live',
      isLatest: true,
      pins: [],
      isVerified: false,
      isSuspect: false,
      isLeftBehind: false,
      reason: '',
      committedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      graceUntil: null,
    };
    const { uri } = place;
    expect(await asJson('list', uri)).toEqual({
      uri,
      checkpoints: [summary],
      sizeBytes: 301_005,
      storedBytes: 301_005,
    });
    expect(await asJson('latest', uri)).toEqual({ uri, ...summary });
    expect(await asJson('commit', uri, '--version', '3')).toEqual({ uri, ...summary });
    const process = { host: expect.any(String), pid: expect.any(Number) };
    expect(await asJson('show', uri)).toEqual({
      uri,
      ...summary,
      worldSize: 1,
      writers: [{ writer: 0, consistency: null, stateVersion: null, takenAt: null }],
      metadata: {},
      manifestKey: expect.stringContaining('manifest-'),
      attempt: expect.stringContaining('drawn-'),
      process,
      files: ['layers/0.bin', 'model.bin', 'notes.txt'].map((name) => ({
        name,
        sizeBytes: Buffer.byteLength(FILES[name as keyof typeof FILES]),
        crc32c: expect.stringMatching(/^[0-9a-f]{8}$/),
        writer: 0,
        key: expect.stringContaining(`/${name}`),
        modifiedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      })),
      directories: [],
    });
    const { entries } = await asJson('log', uri);
    expect(entries[0]).toEqual({
      seq: 2,
      at: summary.committedAt,
      kind: 'commit',
      checkpoints: [summary.id],
      lineage: 1,
      epoch: 1,
      attempt: expect.any(String),
      process,
      reason: '',
    });
    const durationMs = expect.any(Number);
    const head = { uri, version: 3, id: summary.id };
    expect(await asJson('verify', uri)).toEqual({
      ...head,
      level: 2,
      fileCount: 3,
      bytesRead: 301_005,
      storedChecksumCount: 0,
      problems: [],
      isDoubtful: false,
      recorded: 'verified',
      note: '',
      latest: 3,
      durationMs,
    });
    const directory = place.path('out');
    const restored = { ...head, directory, sizeBytes: 301_005, fileCount: 3, skipped: [], durationMs };
    expect(await asJson('restore', uri, directory)).toEqual({ ...restored, life: null, voided: [] });
  });

  it('versions above 2^53 are strings in JSON and exact everywhere', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const version = '9223372036854775807';
    expect((await holdfast(['save', source, place.uri, '--version', version])).stdout).toContain(
      `version ${version} `,
    );
    expect((await holdfast(['latest', place.uri])).stdout).toBe(`${version}\n`);
    expect(json((await holdfast(['latest', place.uri, '--json'])).stdout).version).toBe(version);
  });

  it('restore --only takes what matches; --replace puts it in the place of what was there', async () => {
    const place = await savedPlace(1);
    const out = place.path('out');
    expect((await holdfast(['restore', place.uri, out])).code).toBe(0);
    const refused = await holdfast(['restore', place.uri, out]);
    expect(refused.code).toBe(7);
    expect(refused.stderr).toContain(
      'is not empty\n  restore into a new or empty directory, or pass --replace',
    );
    expect(Object.keys(await contentOf(out))).toHaveLength(3);
    expect(
      (await holdfast(['restore', place.uri, out, '--replace', '--only', 'layers/**', '--only', '*.txt']))
        .code,
    ).toBe(0);
    expect(Object.keys(await contentOf(out))).toEqual(['layers/0.bin', 'notes.txt']);
    const none = await holdfast(['restore', place.uri, place.path('none'), '--only', '*.pt']);
    expect(none.code).toBe(6);
    expect(none.stderr).toContain('no file matches "*.pt"');
  });

  it('the same content again is a success that sends nothing', async () => {
    const place = await savedPlace(1);
    const before = Object.keys(await contentOf(place.runDirectory)).filter((key) => key.includes('.bin'));
    const again = await holdfast(['save', place.path('ckpt'), place.uri, '--version', '1']);
    expect(again).toMatchObject({ code: 0, stderr: '' });
    expect(cellsOf(again.stdout)).toEqual([
      ['committed', 'version 1', 'before, with the same content; nothing was sent'],
    ]);
    const after = Object.keys(await contentOf(place.runDirectory)).filter((key) => key.includes('.bin'));
    expect(after).toEqual(before);
  });

  it('a version that is retired or quarantined since is named so', async () => {
    const place = await savedPlace(1);
    const save = (version: string) => holdfast(['save', place.path('ckpt'), place.uri, '--version', version]);
    await save('2');
    await save('3');
    await holdfast(['gc', place.uri, '--keep', '2', '--apply', '--force']);
    const retired = 'retired since: it is removed unless it is undeleted';
    const said = `before, with the same content; nothing was sent; ${retired}`;
    expect(cellsOf((await save('1')).stdout)).toEqual([['committed', 'version 1', said]]);
    const { stdout } = await holdfast(['commit', place.uri, '--version', '1']);
    expect(cellsOf(stdout)[0]?.slice(-1)).toEqual([retired]);

    const [file = ''] = Object.keys(await contentOf(place.runDirectory)).filter((key) =>
      /^version_2\/.*layers/.test(key),
    );
    await truncate(join(place.runDirectory, file), 0);
    await holdfast(['verify', place.uri, '--version', '2', '--quarantine']);
    const refused = await save('2');
    expect([refused.code, refused.stderr]).toEqual([
      7,
      expect.stringContaining('version 2 is committed already, and quarantined as damaged'),
    ]);
    const committed = await holdfast(['commit', place.uri, '--version', '2']);
    expect(committed.stdout).toContain('quarantined since: it is damaged');
    const forked = await holdfast(['fork', `${place.uri}@2`, `${place.uri}-2`]);
    expect(forked.stderr).toContain(`holdfast list ${place.uri}\``);
  });
});

describe('several writers', () => {
  it('each delivers its own, and both report the one commit', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', { 'a.bin': 'a', 'b.bin': 'b' });
    const save = (index: number, name: string) =>
      holdfast([
        'save',
        `${source}/${name}`,
        place.uri,
        '--version',
        '5',
        '--writer',
        `${index}/2`,
        '--attempt',
        'job-1',
      ]);
    const ended = await Promise.all([save(0, 'a.bin'), save(1, 'b.bin')]);
    expect(ended.map((each) => each.code)).toEqual([0, 0]);
    expect(ended[0]?.stdout).toMatch(/^committed {2,}version 5 \(writer 0 of 2\) {2,}1 B in 1 file {2,}/);
    await holdfast(['restore', place.uri, place.path('out')]);
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(source));
  });

  it('--no-wait delivers; a survivor commits what was left', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', { 'a.bin': 'a', 'b.bin': 'b' });
    const job = ['--version', '5', '--attempt', 'job-1'];
    const first = await holdfast([
      'save',
      `${source}/a.bin`,
      place.uri,
      '--writer',
      '0/2',
      '--no-wait',
      ...job,
    ]);
    expect(first.code).toBe(0);
    expect(cellsOf(first.stdout)).toEqual([
      ['delivered', 'version 5 (writer 0 of 2)', '1 B', 'writer 1 not delivered yet'],
    ]);
    expect((await holdfast(['list', place.uri])).stdout).toBe('no checkpoint yet\n');
    const early = await holdfast(['commit', place.uri, '--version', '5']);
    expect(early.code).toBe(3);
    const second = await holdfast([
      'save',
      `${source}/b.bin`,
      place.uri,
      '--writer',
      '1/2',
      '--no-wait',
      '--json',
      ...job,
    ]);
    expect(json(second.stdout)).toMatchObject({ isCommitted: true, missingWriters: [] });
    const done = await holdfast(['commit', place.uri, '--version', '5']);
    expect(done).toMatchObject({ code: 0, stderr: '' });
    expect(cellsOf(done.stdout)).toEqual([['committed', 'version 5', '2 B in 2 files', 'latest']]);
  });

  it('a writer that waits in vain names who is missing and how to finish', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', { 'a.bin': 'a' });
    const args = [
      'save',
      source,
      place.uri,
      '--writer',
      '1/3',
      '--version',
      '5',
      '--attempt',
      'job-1',
      '--timeout',
      '1s',
    ];
    const ended = await holdfast(args);
    expect(ended.code).toBe(3);
    expect(ended.stdout).toBe('');
    const lines = ended.stderr.trimEnd().split('\n');
    expect(cellsOf(lines[1] ?? '')).toEqual([
      ['delivered', 'version 5 (writer 1 of 3)', '1 B', 'waiting for writers 0 and 2'],
    ]);
    expect(lines.slice(2)).toEqual([
      'holdfast: version 5 is not complete: writers 0, 2 have not delivered (waited 1 s)',
      '  writer 0 never joined; writer 2 never joined',
      `  your files are safe in the store; \`holdfast commit ${place.uri} --version 5\` finishes it once they have delivered`,
      '  a later save of this writer voids what this one delivered, unless both pass the same --life',
      '  (Incomplete, exit 3)',
    ]);
    const asJson = json((await holdfast([...args, '--json', '--attempt', 'job-2'])).stdout);
    expect(asJson.error).toMatchObject({
      code: 'Incomplete',
      exitCode: 3,
      status: 'exhausted',
      context: { version: 5 },
    });
    expect(asJson.error.context.missing.map((each: { writer: number }) => each.writer)).toEqual([0, 2]);
    expect(asJson.error.advice.join(' ')).toContain('holdfast commit');
  });

  it('a newer attempt fences the older one', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const save = (version: number, attempt: string) =>
      holdfast(['save', source, place.uri, '--version', String(version), '--attempt', attempt]);
    expect((await save(1, 'old')).code).toBe(0);
    expect((await save(2, 'new')).code).toBe(0);
    const fenced = await save(3, 'old');
    expect(fenced.code).toBe(4);
    expect(fenced.stderr).toContain(
      'stop this job: nothing it saves can be committed any more\n  (Fenced, exit 4)',
    );
    expect((await holdfast(['latest', place.uri])).stdout).toBe('2\n');
  });

  it('writers that disagree on how many they are are told so', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const save = (writer: string) =>
      holdfast([
        'save',
        source,
        place.uri,
        '--version',
        '1',
        '--attempt',
        'a',
        '--writer',
        writer,
        '--no-wait',
      ]);
    expect((await save('0/2')).code).toBe(0);
    const before = await contentOf(place.runDirectory);
    const other = await save('1/3');
    expect(other.code).toBe(2);
    expect(other.stderr).toContain('writer 1 says that there are 3 writers, but attempt "a" began with 2');
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });
});

describe('settings', () => {
  it('HOLDFAST_URI stands in for the URI, and --verbose says where each value came from', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    const env = {
      HOLDFAST_URI: place.uri,
      SLURM_JOB_ID: '17',
      SLURM_PROCID: '0',
      SLURM_NTASKS: '1',
      HOLDFAST_CHECKPOINT_VERSION: '4',
    };
    const saved = await holdfast(['save', source, '--verbose'], { env });
    expect(saved.code).toBe(0);
    for (const line of [
      `run ${place.uri} from HOLDFAST_URI`,
      'writer 0 of 1 from SLURM_PROCID and SLURM_NTASKS',
      'attempt slurm-17-0 from SLURM_JOB_ID',
      '--version from HOLDFAST_CHECKPOINT_VERSION',
    ]) {
      expect(saved.stderr).toContain(`${line}\n`);
    }
    expect((await holdfast(['latest'], { env: { HOLDFAST_URI: place.uri } })).stdout).toBe('4\n');
    const restored = await holdfast(['restore', place.path('out')], { env: { HOLDFAST_URI: place.uri } });
    expect(restored.code).toBe(0);
  });

  it('--quiet: a save that succeeds is silent, and what was asked for is still printed', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', FILES);
    expect(await holdfast(['save', source, place.uri, '-q'])).toEqual({ code: 0, stdout: '', stderr: '' });
    expect((await holdfast(['latest', place.uri, '-q'])).stdout).toBe('0\n');
  });

  it('--version and --help do not load the engine', async () => {
    const hook =
      'import { registerHooks } from "node:module"; registerHooks({ load: (url, context, next) => (console.error(url), next(url, context)) });';
    const program = [...FROM_SOURCES];
    program.splice(1, 0, '--import', `data:text/javascript,${encodeURIComponent(hook)}`);
    for (const args of [['--version'], ['--help'], ['save', '--help'], ['elasticdl', 'export', '--help']]) {
      const { code, stderr } = await run([...program, ...args]);
      expect(code).toBe(0);
      expect(stderr).toContain('packages/cli/src/run-cli.ts');
      expect(stderr).not.toMatch(
        /packages\/(elasticdl|stores|store-local|local-files|wire)\/|core\/src\/(manager|transfer|format)\/|log-update/,
      );
    }
  });

  it('the examples of --help work when pasted', async () => {
    const place = await newPlace();
    await writeFiles(place, 'ckpt', { 'model.safetensors': 'weights', 'optimizer.pt': 'state' });
    await writeFiles(place, 'bin', {
      holdfast: `#!/bin/sh\nexec ${HOLDFAST.map((word) => `'${word}'`).join(' ')} "$@"\n`,
    });
    await run(['chmod', '+x', place.path('bin/holdfast')]);
    const env = { PATH: `${place.path('bin')}:${process.env['PATH']}` };
    const preparations = new Map([
      [
        'undelete',
        'holdfast save ./ckpt "file://$PWD/run" -q && holdfast gc "file://$PWD/run" --keep 1 --force --apply -q && ',
      ],
    ]);
    let count = 0;
    for (const command of [
      'save',
      'commit',
      'annotate',
      'restore',
      'latest',
      'list',
      'show',
      'log',
      'gc',
      'pin',
      'unpin',
      'undelete',
      'fsck',
      'diff',
      'lease',
      'fork',
      'rollback',
      'verify',
      'recover',
      'completion',
    ]) {
      const { stdout } = await holdfast([command, '--help']);
      if (command === 'recover') preparations.set(command, `TOKEN=${await recoverToken(place, 1, 0)}; `);
      for (const [, example] of stdout.matchAll(/^ {2}\$ (.+)$/gm)) {
        const prepare = preparations.get(command) ?? '';
        const ended = await run(['bash', '-c', `${prepare}${example}`], { cwd: place.directory, env });
        expect(ended.stderr, example).not.toContain('holdfast:');
        expect(ended.code, example).toBe(0);
        count += 1;
      }
    }
    expect(count).toBeGreaterThanOrEqual(30);
  }, 120_000);
});
