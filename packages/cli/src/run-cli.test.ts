import { mkdtemp, rm, writeFile } from 'node:fs/promises';
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

/** One call in this process; `interrupt` fires as soon as something is listening. */
async function cli(
  argv: string[],
  { env = {}, interrupt = false }: { env?: Environment; interrupt?: boolean } = {},
) {
  let [stdout, stderr] = ['', ''];
  const controller = new AbortController();
  const code = await runCli(argv, {
    env,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    clock: systemClock,
    programVersion: '1.2.3',
    ask: null,
    listenForInterrupt: () => {
      if (interrupt) controller.abort(new CheckpointError('Aborted', 'interrupted'));
      return { signal: controller.signal, dispose: () => undefined };
    },
  });
  return { code, stdout, stderr };
}

describe('runCli', () => {
  it('a result goes to standard output, the rest to standard error', async () => {
    const uri = newUri();
    const saved = await cli(['save', directory, uri]);
    expect(saved).toMatchObject({ code: 0, stderr: `version 0 → ${uri}   writer 0 of 1 · epoch 1\n` });
    expect(saved.stdout).toMatch(/^committed {2}version 0 {3}5 B in 1 file {3}/);
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
        advice: 'check the URI; a run begins with its first save',
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

  it('--json behind -- is a name, not a flag', async () => {
    expect((await cli(['list', '--bogus', '--', '--json'])).stdout).toBe('');
  });

  it('a bad value of the environment does not hide behind another', async () => {
    const ended = await cli(['list', newUri()], { env: { HOLDFAST_JSON: 'maybe' } });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain('HOLDFAST_JSON: "maybe" is neither yes nor no');
  });

  it('with --progress json an error is an event like the others', async () => {
    const ended = await cli(['latest', newUri(), '--progress', 'json']);
    expect(JSON.parse(ended.stderr)).toMatchObject({ type: 'error', error: { code: 'NotFound' } });
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
