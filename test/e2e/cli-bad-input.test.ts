/**
 * Bad input at the command line. Each error has its own message and exit status, and the store does
 * not change.
 */

import { createHash } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  contentOf,
  HOLDFAST,
  holdfast,
  newPlace,
  type Place,
  run,
  underMounts,
  writeFiles,
} from './holdfast-process.ts';

interface Case {
  readonly name: string;
  readonly args: (place: Place) => string[];
  readonly exit: number;
  readonly code: string;
  readonly says: string;
  readonly env?: Record<string, string>;
}

const save = (place: Place, ...rest: string[]) => ['save', place.path('ckpt'), place.uri, ...rest];

const CASES: readonly Case[] = [
  {
    name: 'an unknown scheme',
    args: (place) => ['save', place.path('ckpt'), 'ftp://host/run'],
    exit: 2,
    code: 'InvalidConfig',
    says: 'the scheme of the URI is unknown; accepted: file:///abs/dir, s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix, memory://name',
  },
  {
    name: 'a plain path as the URI',
    args: (place) => ['save', place.path('ckpt'), place.runDirectory],
    exit: 2,
    code: 'InvalidConfig',
    says: 'this takes a URI, and was given a path; write file:///',
  },
  {
    name: 'a bad query key',
    args: (place) => ['save', place.path('ckpt'), `${place.uri}?colour=red`],
    exit: 2,
    code: 'InvalidConfig',
    says: 'has an unknown setting',
  },
  {
    name: 'a relative file URI',
    args: (place) => ['save', place.path('ckpt'), 'file://runs/gpt'],
    exit: 2,
    code: 'InvalidConfig',
    says: 'the file:// URI has a host; write an absolute path',
  },
  {
    name: 'a source that is not there',
    args: (place) => ['save', place.path('nowhere'), place.uri],
    exit: 6,
    code: 'NotFound',
    says: 'there is nothing to save at ',
  },
  {
    name: 'two files of one name',
    args: (place) => ['save', place.path('ckpt/a.bin'), place.path('ckpt/sub/a.bin'), place.uri],
    exit: 2,
    code: 'InvalidArgument',
    says: 'two files have the same name, "a.bin": ',
  },
  {
    name: 'a directory among files',
    args: (place) => ['save', place.path('ckpt'), place.path('ckpt/a.bin'), place.uri],
    exit: 2,
    code: 'InvalidArgument',
    says: 'pass one directory, or any number of files',
  },
  {
    name: 'a version below zero',
    args: (place) => save(place, '--version', '-1'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--version: "-1" is not a version; a version is a whole number from 0 to 9223372036854775807',
  },
  {
    name: 'a version that is no integer',
    args: (place) => save(place, '--version=1.5'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--version: "1.5" is not a version',
  },
  {
    name: 'a version that is no integer, in the environment',
    args: (place) => save(place),
    env: { HOLDFAST_CHECKPOINT_VERSION: 'seven' },
    exit: 2,
    code: 'InvalidConfig',
    says: 'HOLDFAST_CHECKPOINT_VERSION: "seven" is not a version',
  },
  {
    name: 'writer 4 of 4',
    args: (place) => save(place, '--writer', '4/4', '--attempt', 'a', '--version', '9'),
    exit: 2,
    code: 'InvalidArgument',
    says: 'there is no writer 4 of 4: I counts from 0 to N-1',
  },
  {
    name: 'several writers without an attempt',
    args: (place) => save(place, '--writer', '2/4', '--version', '9'),
    exit: 2,
    code: 'InvalidArgument',
    says: 'writer 2 of 4 needs an attempt id',
  },
  {
    name: 'several writers under torchrun without an attempt',
    args: (place) => save(place, '--version', '9'),
    env: { RANK: '2', WORLD_SIZE: '4', TORCHELASTIC_RUN_ID: 'run', TORCHELASTIC_RESTART_COUNT: '1' },
    exit: 2,
    code: 'InvalidArgument',
    says: 'torchrun gives no attempt',
  },
  {
    name: 'several writers without a version',
    args: (place) => save(place, '--writer', '2/4', '--attempt', 'a'),
    exit: 2,
    code: 'InvalidArgument',
    says: 'writer 2 of 4 needs --version',
  },
  {
    name: 'an attempt that cannot be used',
    args: (place) => save(place, '--attempt', 'drawn-1'),
    exit: 2,
    code: 'InvalidArgument',
    says: 'attempt is "drawn-1"',
  },
  {
    name: 'a metric that is no number',
    args: (place) => save(place, '--metric', 'loss=low'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--metric: the value of "loss" is "low"',
  },
  {
    name: 'metadata given twice',
    args: (place) => save(place, '--meta', 'a=1', '--meta', 'a=2'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--meta: "a" is given twice',
  },
  {
    name: 'a buffer below its limit',
    args: (place) => save(place, '--buffer', '1KiB'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--buffer: "1KiB" is not a size from 16MiB to 4194240KiB',
  },
  {
    name: 'a rate without its time',
    args: (place) => save(place, '--limit-rate', '50MiB'),
    exit: 2,
    code: 'InvalidArgument',
    says: '--limit-rate: "50MiB" is not a rate; write it like 512KiB/s or 50MiB/s',
  },
  {
    name: 'the same version with other content',
    args: (place) => ['save', place.path('other'), place.uri, '--version', '1'],
    exit: 7,
    code: 'Conflict',
    says: 'version 1 is committed already, with other content',
  },
  {
    name: 'a version below the highest',
    args: (place) => save(place, '--version', '0'),
    exit: 7,
    code: 'Conflict',
    says: 'version 0 is not above 1, the highest committed',
  },
  {
    name: 'an empty directory',
    args: (place) => ['save', place.path('empty'), place.uri],
    exit: 2,
    code: 'InvalidArgument',
    says: 'empty',
  },
  {
    name: 'a symbolic link in the directory',
    args: (place) => ['save', place.path('linked'), place.uri],
    exit: 2,
    code: 'InvalidArgument',
    says: 'symbolic link',
  },
  {
    name: 'a destination that is not empty',
    args: (place) => ['restore', place.uri, place.path('ckpt')],
    exit: 7,
    code: 'TargetExists',
    says: 'is not empty',
  },
  {
    name: 'a version that is not there',
    args: (place) => ['restore', place.uri, place.path('out'), '--version', '77'],
    exit: 6,
    code: 'NotFound',
    says: '77',
  },
  {
    name: 'a version that is not there, shown',
    args: (place) => ['show', place.uri, '--version', '77'],
    exit: 6,
    code: 'NotFound',
    says: 'no version 77 in ',
  },
  {
    name: 'an unknown option',
    args: (place) => save(place, '--verison', '3'),
    exit: 2,
    code: 'InvalidArgument',
    says: 'did you mean --version?',
  },
  {
    name: 'an unknown command',
    args: (place) => ['safe', place.path('ckpt'), place.uri],
    exit: 2,
    code: 'InvalidArgument',
    says: 'did you mean save?',
  },
  {
    name: 'no URI',
    args: () => ['list'],
    exit: 2,
    code: 'InvalidArgument',
    says: 'HOLDFAST_URI is used if the URI is omitted',
  },
];

async function placeWithRun(): Promise<Place> {
  const place = await newPlace();
  await writeFiles(place, 'ckpt', { 'a.bin': 'a', 'sub/a.bin': 'b' });
  await writeFiles(place, 'other', { 'a.bin': 'other' });
  await mkdir(place.path('empty'));
  await writeFiles(place, 'linked', { 'a.bin': 'a' });
  await symlink('a.bin', place.path('linked/b.bin'));
  const saved = await holdfast(['save', place.path('ckpt'), place.uri, '--version', '1']);
  if (saved.code !== 0) throw new Error(saved.stderr);
  return place;
}

describe('bad input', () => {
  let place: Place;
  let before: Record<string, string>;

  // All tests share one place, because none of them changes anything.
  beforeAll(async () => {
    place = await placeWithRun();
    before = await contentOf(place.directory);
  });
  afterAll(() => place.remove());

  it.each(CASES)('$name: $code, exit $exit', async ({ args, env = {}, exit, code, says }) => {
    const [ended, asJson] = await Promise.all([
      holdfast(args(place), { env }),
      holdfast([...args(place), '--json'], { env }),
    ]);
    expect(ended.stderr).toContain(says);
    expect(ended.stderr).toContain(`\n  (${code}, exit ${exit})\n`);
    expect(ended.code).toBe(exit);
    expect(ended.stdout).toBe('');
    expect(asJson.code).toBe(exit);
    expect(JSON.parse(asJson.stdout).error).toMatchObject({
      code,
      exitCode: exit,
      message: expect.any(String),
      advice: expect.any(Array),
    });
    expect(await contentOf(place.directory)).toEqual(before);
  });

  it.each(['latest', 'list', 'show', 'log', 'verify', 'commit'])(
    '%s where there is no run: NotFound, exit 6',
    async (command) => {
      const place = await newPlace();
      const ended = await holdfast([command, place.uri]);
      expect(ended.stderr).toBe(
        `holdfast: no run at ${place.uri}\n  check the URI; a run begins with its first save\n  (NotFound, exit 6)\n`,
      );
      expect(ended.code).toBe(6);
      expect(await contentOf(place.directory)).toEqual({});
    },
  );

  it('a run that nothing was committed to: latest and show exit with 6, list says so', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'ckpt', { 'a.bin': 'a' });
    await holdfast([
      'save',
      source,
      place.uri,
      '--version',
      '1',
      '--writer',
      '0/2',
      '--attempt',
      'a',
      '--no-wait',
    ]);
    for (const command of ['latest', 'show']) {
      const ended = await holdfast([command, place.uri]);
      expect(ended.code).toBe(6);
      expect(ended.stderr).toContain(`the run at ${place.uri} has no checkpoint yet`);
    }
    expect(await holdfast(['list', place.uri])).toEqual({
      code: 0,
      stdout: 'no checkpoint yet\n',
      stderr: '',
    });
  });

  it('a password in a URI is never repeated', async () => {
    const place = await placeWithRun();
    const ended = await holdfast([
      'save',
      place.path('ckpt'),
      's3://AKIA:hunter2@bucket/run',
      '--json',
      '--verbose',
    ]);
    expect(ended.code).toBe(2);
    expect(ended.stdout + ended.stderr).not.toContain('hunter2');
  });
});

describe('a store that cannot be written', () => {
  // Without these two capabilities, permissions of a directory bind root too.
  const WITHOUT_OVERRIDE = [
    'setpriv',
    '--bounding-set',
    '-dac_override,-dac_read_search',
    '--inh-caps',
    '-all',
    '--',
  ];
  let prefix: string[] = [];

  beforeAll(() => {
    prefix = process.getuid?.() === 0 ? WITHOUT_OVERRIDE : [];
  });

  it('a directory without permission to write: Denied, exit 8', async () => {
    const place = await placeWithRun();
    await run(['chmod', '-R', 'a-w', place.runDirectory]);
    const before = await contentOf(place.runDirectory);
    const ended = await run([
      ...prefix,
      ...HOLDFAST,
      'save',
      place.path('ckpt'),
      place.uri,
      '--version',
      '2',
    ]);
    await run(['chmod', '-R', 'u+w', place.runDirectory]);
    expect(ended.stderr).toMatch(/\n {2}check its owner and mode;.*\n {2}\(Denied, exit 8\)/);
    expect(ended.code).toBe(8);
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });

  it('a source without permission to read: Denied, exit 8', async () => {
    const place = await placeWithRun();
    await run(['chmod', 'a-r', place.path('ckpt/a.bin')]);
    const before = await contentOf(place.runDirectory);
    const ended = await run([
      ...prefix,
      ...HOLDFAST,
      'save',
      place.path('ckpt'),
      place.uri,
      '--version',
      '2',
    ]);
    expect(ended.stderr).toMatch(/a\.bin(.*\n)* {2}check its owner and mode.*\n {2}\(Denied, exit 8\)/);
    expect(ended.code).toBe(8);
    expect(Object.keys(await contentOf(place.runDirectory))).toEqual(
      expect.arrayContaining(Object.keys(before)),
    );
  });

  it('a full disk: StorageFull, exit 75, and what was committed before is untouched', async () => {
    const place = await newPlace();
    await writeFiles(place, 'small', { 'a.bin': 'a' });
    await writeFiles(place, 'large', { 'b.bin': Buffer.alloc(6 * 1024 * 1024, 3) });
    await mkdir(place.path('disk'));
    const ended = await underMounts(
      place.directory,
      `mount -t tmpfs -o size=4m tmpfs disk
       uri=file://$PWD/disk/run
       holdfast save small "$uri" --version 1 --quiet
       if holdfast save large "$uri" --version 2 >&2; then exit 99; else status=$?; fi
       holdfast latest "$uri"
       holdfast verify "$uri" --json
       exit $status`,
    );
    expect(ended.stderr).toContain('(StorageFull, exit 75)');
    expect(ended.code).toBe(75);
    expect(ended.stdout).toMatch(/^1\n\{.*"problems":\[\].*\}\n$/);
  });

  it('a disk that is mounted read-only: ReadOnly, exit 8', async () => {
    const place = await placeWithRun();
    const ended = await underMounts(
      place.directory,
      `mount --bind run run
       mount -o remount,ro,bind run
       holdfast latest file://$PWD/run
       holdfast save ckpt file://$PWD/run --version 2`,
    );
    expect(ended.stdout).toBe('1\n');
    expect(ended.stderr).toContain('(ReadOnly, exit 8)');
    expect(ended.code).toBe(8);
  });
});

describe('a source that changes while it is saved', () => {
  it('SourceChanged, exit 75, and nothing is committed', async () => {
    const place = await placeWithRun();
    const source = await writeFiles(place, 'growing', { 'big.bin': Buffer.alloc(64 * 1024 * 1024, 5) });
    const growing = setInterval(() => appendFileSync(`${source}/big.bin`, 'more'), 1);
    const args = ['save', source, place.uri, '--version', '2', '--progress', 'json'];
    const ended = await holdfast(args).finally(() => clearInterval(growing));
    const last = JSON.parse(ended.stderr.trimEnd().split('\n').at(-1) as string);
    expect(last).toMatchObject({ type: 'error', error: { code: 'SourceChanged', exitCode: 75 } });
    expect(ended.code).toBe(75);
    expect((await holdfast(['latest', place.uri])).stdout).toBe('1\n');
  });
});

describe('records that are not as they were written', () => {
  /** Path of the newest catalog entry. */
  async function newestEntry(place: Place): Promise<string> {
    const keys = Object.keys(await contentOf(place.runDirectory)).filter((key) => key.startsWith('catalog/'));
    return `${place.runDirectory}/${keys.sort().at(-1)}`;
  }

  it.each([
    ['truncated', (text: string) => text.slice(0, text.length / 2)],
    ['with a bit flipped', (text: string) => text.replace('"version":"1"', '"version":"0"')],
  ])('a catalog entry %s: Corrupt, exit 5, and it is named', async (_, damage) => {
    const place = await placeWithRun();
    const entry = await newestEntry(place);
    const text = await readFile(entry, 'utf8');
    expect(damage(text)).not.toBe(text);
    await writeFile(entry, damage(text));
    const before = await contentOf(place.runDirectory);
    for (const args of [
      ['latest', place.uri],
      ['list', place.uri],
      ['restore', place.uri, place.path('out')],
      save(place, '--version', '2'),
    ]) {
      const ended = await holdfast(args);
      expect(ended.stderr).toContain('catalog/');
      expect(ended.stderr).toContain('(Corrupt, exit 5)');
      expect(ended.code).toBe(5);
    }
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });

  it('a catalog entry of a newer format: UnsupportedFormat, exit 1, and it says to upgrade', async () => {
    const place = await placeWithRun();
    const entry = await newestEntry(place);
    const body = (await readFile(entry, 'utf8')).slice(85).replace('"major":1', '"major":3');
    const checksum = createHash('sha256').update(body).digest('hex');
    await writeFile(entry, `{"checksum":"sha256:${checksum}"${body}`);
    const before = await contentOf(place.runDirectory);
    for (const args of [['latest', place.uri], save(place, '--version', '2')]) {
      const ended = await holdfast(args);
      expect(ended.stderr).toContain(
        'a newer version of it wrote this record\n  (UnsupportedFormat, exit 1)',
      );
      expect(ended.code).toBe(1);
    }
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });
});
