import { mkdtemp, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runCli } from './run-cli.ts';
import type { Environment } from './sourced.ts';

let directory: string;
let count = 0;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-run-cli-'));
  await writeFile(join(directory, 'a.bin'), 'bytes');
});
afterEach(() => rm(directory, { recursive: true }));

const newUri = () => `memory://run-cli-${count++}`;

interface CliOptions {
  env?: Environment;
  /**
   * Fires as soon as the command listens; `when asked`: instead of an answer; `at work`: when the
   * long part of the call begins.
   */
  interrupt?: boolean | 'when asked' | 'at work';
  /** Answer at the terminal; without one there is no terminal. */
  answer?: string;
}

/** One call in this process. */
async function cli(argv: string[], { env = {}, interrupt = false, answer }: CliOptions = {}) {
  let [stdout, stderr] = ['', ''];
  const controller = new AbortController();
  const code = await runCli(argv, {
    env,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    clock: {
      ...systemClock,
      monotonicMs: () => {
        if (interrupt === 'at work') controller.abort(new CheckpointError('Aborted', 'interrupted'));
        return systemClock.monotonicMs();
      },
    },
    programVersion: '1.2.3',
    ask:
      answer === undefined
        ? null
        : async (question) => {
            stderr += question;
            if (interrupt === 'when asked') controller.abort(new CheckpointError('Aborted', 'interrupted'));
            return answer;
          },
    listenForInterrupt: () => {
      return {
        signal: controller.signal,
        outlastSigterm: () => undefined,
        deliverEarly: () => {
          if (interrupt === true) controller.abort(new CheckpointError('Aborted', 'interrupted'));
        },
        dispose: () => undefined,
      };
    },
  });
  return { code, stdout, stderr };
}

describe('runCli', () => {
  it('a result goes to standard output, the rest to standard error', async () => {
    const uri = newUri();
    const saved = await cli(['save', directory, uri]);
    expect(saved).toMatchObject({ code: 0, stderr: `version 0 → ${uri}   writer 0 of 1 · epoch 1\n` });
    expect(saved.stdout).toMatch(/^committed {2,}version 0 {2,}5 B in 1 file {2,}/);
    expect(await cli(['latest', uri])).toEqual({ code: 0, stdout: '0\n', stderr: '' });
  });

  it('an error with --json is one object on standard output, and people can read it on standard error', async () => {
    const uri = newUri();
    const ended = await cli(['latest', uri, '--json']);
    expect(ended.code).toBe(6);
    expect(JSON.parse(ended.stdout)).toEqual({
      error: {
        code: 'NotFound',
        message: `no run at ${uri}`,
        exitCode: 6,
        status: 'permanent',
        advice: ['check the URI; a run begins with its first save'],
        context: { store: uri, run: 'missing' },
      },
    });
    expect(ended.stderr).toContain('(NotFound, exit 6)');
  });

  it.each<[string[], Environment]>([
    [['list', '--bogus', '--json'], {}],
    [['--json', 'list', '--bogus'], {}],
    [['list', '--bogus'], { HOLDFAST_JSON: '1' }],
  ])('a command line that is not understood: JSON too, %j %o', async (argv, env) => {
    const ended = await cli(argv, { env });
    expect(ended.code).toBe(2);
    expect(JSON.parse(ended.stdout).error.message).toBe("unknown option '--bogus'");
  });

  it.each([
    [['--version', '--json']],
    [['--json']],
    [['save', '--help', '--json']],
    [['--json', 'help', 'elasticdl']],
  ])('%j prints its text as one object', async (argv) => {
    const plain = await cli(argv.filter((word) => word !== '--json'));
    const ended = await cli(argv);
    expect(ended.code).toBe(0);
    expect(JSON.parse(ended.stdout)).toEqual({ text: plain.stdout });
  });

  it('--json behind -- is a name, not a flag', async () => {
    expect((await cli(['list', '--bogus', '--', '--json'])).stdout).toBe('');
  });

  it('a bad value of the environment does not hide behind another', async () => {
    const ended = await cli(['list', newUri()], { env: { HOLDFAST_JSON: 'maybe' } });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('HOLDFAST_JSON: "maybe" is not accepted');
  });

  it.each(['save', 'restore', 'list', 'latest', 'show', 'log', 'verify'])(
    '%s that is interrupted: Aborted, exit 130',
    async (command) => {
      const uri = newUri();
      await cli(['save', directory, uri]);
      const operands = { save: [directory, uri], restore: [uri, join(directory, 'out')] }[command] ?? [uri];
      const ended = await cli([command, ...operands], { interrupt: true });
      expect(ended.stderr).toMatch(
        /^holdfast: interrupted\n {2}nothing was .*\n {2}\(Aborted, exit 130\)\n$/,
      );
      expect(ended).toMatchObject({ code: 130, stdout: '' });
    },
  );

  it('--limit-rate: what is saved and copied is sent no faster, and restored as fast as it goes', async () => {
    for (const name of ['a', 'b', 'c']) await writeFile(join(directory, name), new Uint8Array(32 * 1024));
    const uri = newUri();
    const seconds = async (...args: string[]) => {
      const beganMs = performance.now();
      expect((await cli([...args, '--limit-rate', '256KiB/s'])).code).toBe(0);
      return (performance.now() - beganMs) / 1000;
    };
    // The rate does not delay the last of three files. The first two take a quarter of a second.
    expect(await seconds('save', directory, uri, '--dedupe', 'off')).toBeGreaterThan(0.24);
    expect(await seconds('mirror', uri, newUri())).toBeGreaterThan(0.24);
    expect((await cli(['restore', uri, join(directory, 'out'), '--limit-rate', '1B/s'])).code).toBe(2);
  });

  it('--verbose says where values came from and shows stacks', async () => {
    const uri = newUri();
    const ended = await cli(['save', directory, '-v'], {
      env: { HOLDFAST_URI: uri, HOLDFAST_BUFFER: '64MiB' },
    });
    expect(ended.stderr).toContain(`run ${uri} from HOLDFAST_URI\n`);
    expect(ended.stderr).toContain('--buffer from HOLDFAST_BUFFER\n');
    expect((await cli(['latest', newUri(), '-v'])).stderr).toContain('run-cli.ts');
    expect((await cli(['latest', newUri()])).stderr).not.toContain('run-cli.ts');
  });
});

describe('keep tidy', () => {
  /** A run with versions 1 to `count`, of which the first has the smallest loss. */
  async function run(count = 3): Promise<string> {
    const uri = newUri();
    for (let version = 1; version <= count; version += 1) {
      await writeFile(join(directory, 'a.bin'), `bytes ${version}`);
      const metric = `loss=${version}`;
      await cli(['save', directory, uri, '--version', String(version), '--metric', metric]);
    }
    return uri;
  }
  const states = async (uri: string) => {
    const { checkpoints } = JSON.parse((await cli(['list', uri, '--json'])).stdout);
    return checkpoints.map((each: { version: number; state: string }) => `${each.version} ${each.state}`);
  };

  it('gc --plan and --explain say what would be done, and do nothing', async () => {
    const uri = await run();
    const planned = await cli(['gc', uri, '--keep', '2', '--plan']);
    expect(planned).toMatchObject({ code: 0, stderr: '' });
    expect(planned.stdout).toMatch(/^rules: newest 2; grace 1 h\nPLAN .*\nkeep .* 2 and 3\nretire .* 1\n/);
    const explained = await cli(['gc', uri, '--keep-best', 'loss:min:1', '--explain']);
    expect(explained.stdout).toMatch(/\n +1 .* keep +best 1 by loss \(1\)\n/);
    const { plan } = JSON.parse((await cli(['gc', uri, '--keep', '2', '--plan', '--json'])).stdout);
    expect(plan).toMatchObject({
      policy: { keepLast: 2 },
      needsForce: false,
      totalBytes: 21,
      droppedBytes: 7,
    });
    expect(await states(uri)).toEqual(['3 live', '2 live', '1 live']);
  });

  it('gc --apply says what it did; what it retired can be taken back', async () => {
    const uri = await run();
    const done = await cli(['gc', uri, '--keep', '2', '--apply']);
    expect(done.code).toBe(0);
    expect(done.stderr).toMatch(/^rules: newest 2; grace 1 h\n/);
    expect(done.stdout).toMatch(
      /^waits {2,}1 {2,}retired .*\ncollected {2,}retired 1, removed 0 \(1 waits\), deleted .*\n$/,
    );
    expect(await states(uri)).toEqual(['3 live', '2 live', '1 retiring']);
    expect((await cli(['list', uri])).stdout).toMatch(/\n +1 .* retiring \(60 min left\)\n/);
    expect(await cli(['undelete', uri, '--version', '1'])).toEqual({
      code: 0,
      stdout: 'live again  version 1   the rules apply to it again; `holdfast pin` keeps it\n',
      stderr: '',
    });
    expect(await states(uri)).toEqual(['3 live', '2 live', '1 live']);
  });

  it('gc --grace 0 removes at once; after that there is no way back', async () => {
    const uri = await run();
    const done = JSON.parse(
      (await cli(['gc', uri, '--keep', '2', '--grace', '0', '--apply', '--json'])).stdout,
    );
    expect(done).toMatchObject({ uri, retired: [1], removed: [1], postponed: [] });
    expect(done.swept).toMatchObject({ held: [], uploadCount: 0 });
    expect(await states(uri)).toEqual(['3 live', '2 live']);
    const late = await cli(['undelete', uri, '--version', '1']);
    expect(late.stderr).toMatch(/version 1 was removed\n.*\n {2}\(NotFound, exit 6\)\n$/s);
  });

  it('a grace alone goes with the rules of the run', async () => {
    const uri = await run();
    await cli(['save', directory, uri, '--version', '4', '--keep', '3']);
    const planned = await cli(['gc', uri, '--grace', '2d', '--plan']);
    expect(planned.stdout).toMatch(/^rules: newest 3; grace 2 d\n/);
  });

  it('save --keep sets the rules of the run, and --keep all takes them away', async () => {
    const uri = await run(1);
    const rules = async () => (await cli(['gc', uri, '--plan'])).stdout.split('\n')[0];
    expect(await rules()).toBe('rules: none: everything is kept');
    await cli(['save', directory, uri, '--version', '2', '--keep', '5', '--keep-every', '10']);
    expect(await rules()).toBe('rules: newest 5, multiples of 10; grace 1 h');
    await cli(['save', directory, uri, '--version', '3']);
    expect(await rules()).toBe('rules: newest 5, multiples of 10; grace 1 h');
    await cli(['save', directory, uri, '--version', '4', '--keep', 'all']);
    expect(await rules()).toBe('rules: none: everything is kept');
  });

  it('without a terminal gc needs --apply or --plan', async () => {
    const uri = await run(1);
    const ended = await cli(['gc', uri]);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toBe(
      'holdfast: gc must ask first, and there is no terminal\n  pass --apply to do it, or --plan to see first what would be done\n  (InvalidArgument, exit 2)\n',
    );
  });

  it('at a terminal gc shows the plan and asks; only yes is yes', async () => {
    const uri = await run();
    for (const answer of ['', 'n', 'yess']) {
      const asked = await cli(['gc', uri, '--keep', '2', '--quiet'], { answer });
      expect(asked).toMatchObject({ code: 130, stdout: '' });
      expect(asked.stderr).toMatch(
        /^rules: .*\ndo it\? \[y\/N\] holdfast: the answer was no\n {2}nothing was changed\n {2}\(Aborted, exit 130\)\n$/s,
      );
    }
    expect(await states(uri)).toEqual(['3 live', '2 live', '1 live']);
    const done = await cli(['gc', uri, '--keep', '2'], { answer: 'Y' });
    expect(done.stdout).toContain('collected  retired 1');
  });

  it('gc that is interrupted at its question changes nothing', async () => {
    const uri = await run();
    const ended = await cli(['gc', uri, '--keep', '2'], { answer: 'y', interrupt: 'when asked' });
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain('holdfast: interrupted\n  nothing was changed\n');
    expect(await states(uri)).toEqual(['3 live', '2 live', '1 live']);
  });

  it('gc that is interrupted says what is left behind, and the next one goes on', async () => {
    const uri = await run();
    const ended = await cli(['gc', uri, '--keep', '2', '--apply', '--quiet'], { interrupt: 'at work' });
    expect(ended).toMatchObject({ code: 130, stdout: '' });
    expect(ended.stderr).toMatch(
      /^holdfast: interrupted\n {2}.*holdfast undelete.*\n.* the next gc continues where this one ended\n/,
    );
    expect((await cli(['gc', uri, '--keep', '2', '--apply'])).stdout).toContain('collected  retired 1');
  });

  it('what drops more than half needs --force: no question, no change', async () => {
    const uri = await run(5);
    const ended = await cli(['gc', uri, '--keep', '1'], { answer: 'y' });
    expect(ended.code).toBe(7);
    expect(ended.stderr).toContain('this drops more than half of the run, 21 B of 35 B: it needs --force');
    expect(ended.stderr).toContain('--force drops them nevertheless\n  (Conflict, exit 7)\n');
    expect(ended.stderr).not.toContain('[y/N]');
    expect(await states(uri)).toHaveLength(5);
    const forced = await cli(['gc', uri, '--keep', '1', '--apply', '--force']);
    expect(forced).toMatchObject({ code: 0, stdout: expect.stringContaining('retired 3') });
  });

  it('--plan, --explain and --apply exclude each other; the command line overrides the environment', async () => {
    const uri = await run(1);
    const both = await cli(['gc', uri, '--plan', '--apply']);
    expect(both.stderr).toContain('--plan and --apply cannot be combined\n  choose one of');
    expect(both.code).toBe(2);
    const planned = await cli(['gc', uri, '--plan'], { env: { HOLDFAST_APPLY: '1' } });
    expect(planned).toMatchObject({ code: 0, stderr: '' });
    expect((await cli(['gc', uri], { env: { HOLDFAST_APPLY: '1' } })).stdout).toContain('collect');
  });

  it('there is nothing to collect', async () => {
    const uri = await run(1);
    await cli(['gc', uri, '--apply']);
    expect((await cli(['gc', uri, '--apply'])).stdout).toBe('nothing to collect\n');
  });

  it.each<[string[], number, string]>([
    [['--keep-best', 'acc:max:1'], 2, 'no checkpoint has the metric "acc"; there are: loss'],
    [['--keep-every', '1000'], 2, 'would keep none of 1 checkpoints'],
    [['--keep', 'all', '--keep-for', '1d'], 2, '--keep all cannot be combined with other rules'],
    [['--keep', '-1'], 2, '--keep: "-1" is not a whole number from 1 to 4294967295, nor "all"'],
  ])('gc %j is refused, and nothing is changed', async (options, code, says) => {
    const uri = await run(1);
    const ended = await cli(['gc', uri, ...options, '--apply']);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toContain(says);
    expect(await states(uri)).toEqual(['1 live']);
  });

  it('pin keeps, unpin gives back, and list shows the labels', async () => {
    const uri = await run();
    expect((await cli(['pin', uri, '--version', '1', '--label', 'paper'])).stdout).toBe(
      'pinned  version 1   paper\n',
    );
    await cli(['pin', uri, '--version', '1']);
    expect((await cli(['list', uri])).stdout).toMatch(/\n +1 .* pinned: paper, pinned\n/);
    expect((await cli(['gc', uri, '--keep', '2', '--plan'])).stdout).toContain('nothing to retire or remove');
    expect((await cli(['unpin', uri, '--version', '1', '--label', 'paper'])).stdout).toBe(
      'unpinned  version 1   paper\n',
    );
    expect(JSON.parse((await cli(['unpin', uri, '--version', '1', '--json'])).stdout)).toEqual({
      uri,
      version: 1,
      labels: ['pinned'],
    });
    expect((await cli(['unpin', uri, '--version', '1'])).stdout).toBe(
      'unpinned  version 1   it had no pin\n',
    );
    expect(await cli(['pin', uri, '--version', '1', '--quiet'])).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  it.each<[string[], number, string]>([
    [['pin'], 2, 'pin needs --version\n  usage: holdfast pin URI --version V [options]'],
    [['pin', '--version', '9'], 6, 'version 9 is not in the catalog'],
    [['pin', '--version', '1', '--label', ''], 2, 'the label "" cannot be used'],
    [['unpin', '--version', '1', '--label', 'paper'], 6, 'version 1 has no pin "paper"; it has none'],
    [['undelete', '--version', '1'], 7, 'version 1 is not retired: it is live'],
    [['undelete', '--version', '9'], 6, 'version 9 is not in the catalog'],
  ])('%j is refused', async ([command = '', ...options], code, says) => {
    const uri = await run(1);
    const ended = await cli([command, uri, ...options]);
    expect(ended).toMatchObject({ code, stdout: '' });
    expect(ended.stderr).toContain(says);
  });

  it.each(['gc', 'pin', 'unpin', 'undelete'])(
    '%s where there is no run: NotFound, exit 6',
    async (command) => {
      const uri = newUri();
      const ended = await cli([command, uri, ...(command === 'gc' ? ['--apply'] : ['--version', '1'])]);
      expect(ended.code).toBe(6);
      expect(ended.stderr).toBe(
        `holdfast: no run at ${uri}\n  check the URI; a run begins with its first save\n  (NotFound, exit 6)\n`,
      );
    },
  );

  it('save --on-stale and --dedupe take their words, --should-change a glob', async () => {
    const uri = newUri();
    const refused = async (...options: string[]) => (await cli(['save', directory, uri, ...options])).stderr;
    expect(await refused('--on-stale', 'maybe')).toContain(
      '--on-stale: "maybe" is not one of warn, fail, off',
    );
    expect(await refused('--dedupe', 'yes')).toContain('--dedupe: "yes" is not one of auto, off');
    expect(await refused('--should-change', '')).toContain('--should-change: "" is not a glob');
    expect(await refused('--grace', '1h')).toContain('--grace needs a rule, such as --keep 3');
  });

  it('fsck says what is left over and what to do, and that the rest is sound', async () => {
    const uri = await run(2);
    const ended = await cli(['fsck', uri]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(
      /^garbage {2,}.*\n {2}`holdfast gc memory:.*` deletes it\nsound {2,}2 versions {2,}.*\n$/,
    );
    const found = JSON.parse((await cli(['fsck', uri, '--json'])).stdout);
    expect(found).toMatchObject({ uri, checkpointCount: 2, isSound: true });
    expect(found.problems).toEqual([
      {
        kind: 'garbage',
        id: null,
        key: expect.any(String),
        objectCount: expect.any(Number),
        sizeBytes: expect.any(Number),
        message: expect.any(String),
      },
    ]);
  });

  it('fsck --rebuild-catalog asks first, and refuses where there is a catalog', async () => {
    const uri = await run(1);
    const nobody = await cli(['fsck', uri, '--rebuild-catalog']);
    expect(nobody).toMatchObject({ code: 2, stdout: '' });
    expect(nobody.stderr).toContain(
      'pass --apply to do it; stop every process that writes to this run first',
    );
    expect((await cli(['fsck', uri, '--rebuild-catalog'], { answer: 'n' })).code).toBe(130);
    for (const [options, given] of [
      [['--apply'], {}],
      [[], { answer: 'y' }],
    ] as const) {
      const refused = await cli(['fsck', uri, '--rebuild-catalog', ...options], given);
      expect(refused).toMatchObject({ code: 7, stdout: '' });
      expect(refused.stderr).toContain('there is a catalog');
    }
    const lonely = await cli(['fsck', uri, '--apply']);
    expect(lonely.stderr).toContain('--apply needs --rebuild-catalog or --release');
    expect(lonely.code).toBe(2);
  });

  it('a damaged newest decision: every command names the one way out, and it leads out', async () => {
    const [files, place] = [join(directory, 'a.bin'), join(directory, 'run')];
    const uri = `file://${place}`;
    for (const version of ['1', '2']) await cli(['save', files, uri, '--version', version]);
    const entries = (await readdir(join(place, 'catalog'))).sort();
    const newest = entries.at(-1) as string;
    await truncate(join(place, 'catalog', entries[0] as string), 200);
    expect((await cli(['log', uri])).stderr).toContain('only the log needs it');
    expect((await cli(['latest', uri])).code).toBe(0);
    await truncate(join(place, 'catalog', newest), 200);
    const out = join(directory, 'out');
    const wayOut = `holdfast fsck ${uri} --rebuild-catalog --apply`;
    for (const [name = '', ...rest] of [
      ...[['latest'], ['list'], ['log'], ['verify'], ['fsck'], ['gc', '--keep', '1', '--plan']],
      ...[
        ['restore', out],
        ['restore', out, '--on-corrupt', 'fallback'],
        ['rollback', '--to', '1', '--reason', 'bad'],
      ],
    ]) {
      const { code, stderr } = await cli([name, uri, ...rest]);
      expect({ name, code }).toEqual({ name, code: 5 });
      expect(stderr, name).toContain(`restore an intact copy of catalog/${newest}, if`);
      expect(stderr, name).toContain(wayOut);
      expect(stderr, name).not.toMatch(/fallback|no other version|kind of finding/);
    }
    expect((await cli(['save', files, uri])).stderr).toContain(wayOut);
    await rename(join(place, 'catalog'), join(directory, 'aside'));
    expect(await cli(wayOut.split(' ').slice(1))).toMatchObject({ code: 0, stderr: '' });
    expect((await cli(['restore', uri, out])).code).toBe(0);
    expect((await cli(['latest', uri])).stdout).toBe('2\n');
  });

  it('fsck --skip goes with a rebuild only, and --release with none; --release asks first', async () => {
    const uri = await run(1);
    const key = 'version_1/1.1/manifest-0123456789abcdef.json';
    for (const [options, says] of [
      [['--skip', key], '--skip needs --rebuild-catalog'],
      [['--release', key, '--rebuild-catalog'], '--release cannot be combined with --rebuild-catalog'],
      [['--release', key], 'pass --apply to do it'],
    ] as const) {
      const refused = await cli(['fsck', uri, ...options]);
      expect(refused).toMatchObject({ code: 2, stdout: '' });
      expect(refused.stderr).toContain(says);
    }
    const asked = await cli(['fsck', uri, '--release', key], { answer: 'n' });
    expect(asked.code).toBe(130);
    expect(asked.stderr).toContain(`objects to which only ${key} refers become garbage`);
    const unknown = await cli(['fsck', uri, '--release', key, '--apply']);
    expect(unknown.code).toBe(7);
    expect(unknown.stderr).toContain('is not a skipped manifest');
  });

  it('fsck where there is no run: NotFound, exit 6', async () => {
    for (const options of [[], ['--rebuild-catalog', '--apply']]) {
      const ended = await cli(['fsck', newUri(), ...options]);
      expect(ended).toMatchObject({ code: 6, stdout: '' });
      expect(ended.stderr).toContain('\n  check the URI; a run begins with its first save\n');
    }
  });
});
