import { type CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { metric, quiet, timeout } from './common-options.ts';
import { canRedraw, optionFromEnvironment, resolveJob, uriFromEnvironment, wantsColor } from './env.ts';
import type { Environment } from './sourced.ts';

function errorOf(run: () => unknown): CheckpointError {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('optionFromEnvironment', () => {
  it('reads the option by its own name', () => {
    expect(optionFromEnvironment(timeout, { HOLDFAST_TIMEOUT: '30s' })).toEqual({
      value: 30_000,
      source: 'HOLDFAST_TIMEOUT',
    });
  });

  it('an empty variable counts as absent', () => {
    expect(optionFromEnvironment(timeout, { HOLDFAST_TIMEOUT: '' })).toBeNull();
  });

  it('a list has one value per line', () => {
    expect(optionFromEnvironment(metric, { HOLDFAST_METRIC: 'loss=2.1\nauc=0.8\n' })?.value).toEqual([
      ['loss', 2.1],
      ['auc', 0.8],
    ]);
  });

  it.each(['1', 'true', 'YES', 'on'])('a flag is on at %s', (text) => {
    expect(optionFromEnvironment(quiet, { HOLDFAST_QUIET: text })?.value).toBe(true);
  });

  it.each(['0', 'false', 'no', ''])('a flag is off at "%s"', (text) => {
    expect(optionFromEnvironment(quiet, { HOLDFAST_QUIET: text })).toBeNull();
  });

  it('a value that is refused is InvalidConfig and names the variable', () => {
    const error = errorOf(() => optionFromEnvironment(timeout, { HOLDFAST_TIMEOUT: 'soon' }));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('HOLDFAST_TIMEOUT: "soon" is not a duration');
    expect(errorOf(() => optionFromEnvironment(quiet, { HOLDFAST_QUIET: 'maybe' })).message).toContain(
      'HOLDFAST_QUIET',
    );
  });
});

const textOf = (path: string) =>
  path.endsWith('boot_id')
    ? '0a1b2c3d-e4f5\n'
    : `7 (a (b) c) S 1 ${Array.from({ length: 17 }, () => '0').join(' ')} 9876 0 0\n`;

describe('resolveJob', () => {
  const none = { writer: null, attempt: null };
  const slurm = { SLURM_JOB_ID: '4711', SLURM_PROCID: '2', SLURM_NTASKS: '4' };
  const torchrun = { RANK: '1', WORLD_SIZE: '2', TORCHELASTIC_RUN_ID: 'r', TORCHELASTIC_RESTART_COUNT: '0' };

  it('alone it is writer 0 of 1, without an attempt', () => {
    const job = resolveJob(none, {});
    expect(job.writer.value).toEqual({ index: 0, count: 1 });
    expect(job.attempt).toBeNull();
  });

  it('Slurm gives writer and attempt', () => {
    const job = resolveJob(none, { ...slurm, SLURM_RESTART_COUNT: '3' });
    expect(job.writer).toEqual({ value: { index: 2, count: 4 }, source: 'SLURM_PROCID and SLURM_NTASKS' });
    expect(job.attempt).toEqual({ value: 'slurm-4711-3', source: 'SLURM_JOB_ID and SLURM_RESTART_COUNT' });
  });

  it('each srun of a Slurm job is an attempt of its own', () => {
    const attempts = ['0', '1'].map((step) => resolveJob(none, { ...slurm, SLURM_STEP_ID: step }).attempt);
    expect(attempts.map((attempt) => attempt?.value)).toEqual(['slurm-4711-0-0', 'slurm-4711-0-1']);
    expect(attempts[0]?.source).toBe('SLURM_JOB_ID and SLURM_STEP_ID');
    const restarted = { ...slurm, SLURM_STEP_ID: '1', SLURM_RESTART_COUNT: '2' };
    expect(resolveJob(none, restarted).attempt).toEqual({
      value: 'slurm-4711-2-1',
      source: 'SLURM_JOB_ID, SLURM_RESTART_COUNT and SLURM_STEP_ID',
    });
  });

  it('rank 0 under a launcher is told how to save alone', () => {
    const lone = errorOf(() => resolveJob(none, { ...torchrun, RANK: '0' }));
    expect(lone.context['advice']).toContain(
      'if only rank 0 saves, pass --writer 0/1, which needs no attempt',
    );
    expect(errorOf(() => resolveJob(none, torchrun)).context['advice']).not.toContain('--writer 0/1');
  });

  it('a Slurm job that was never restarted has restart 0', () => {
    expect(resolveJob(none, slurm).attempt?.value).toBe('slurm-4711-0');
  });

  it('an option wins over the launcher', () => {
    const given = {
      writer: { value: { index: 0, count: 1 }, source: '--writer' },
      attempt: { value: 'mine', source: '--attempt' },
    };
    expect(resolveJob(given, slurm)).toEqual({ ...given, life: null });
  });

  it('torchrun gives the writer and no attempt, and the error explains why', () => {
    const error = errorOf(() => resolveJob(none, torchrun));
    expect(error.code).toBe('InvalidArgument');
    expect(error.message).toBe('writer 1 of 2 needs an attempt id (writer from RANK and WORLD_SIZE)');
    expect(String(error.context['advice'])).toContain('differ between nodes');
  });

  it("torchrun inside Slurm: Slurm's job is no attempt of workers that torchrun starts again", () => {
    expect(() => resolveJob(none, { ...slurm, ...torchrun })).toThrow('needs an attempt id');
    const attempt = { value: 'a', source: '--attempt' };
    expect(resolveJob({ writer: null, attempt }, { ...slurm, ...torchrun }).writer.value).toEqual({
      index: 1,
      count: 2,
    });
  });

  it('a life needs an attempt, and is taken as it stands but for the word "parent"', () => {
    const life = (value: string, source = '--life') => ({ ...none, life: { value, source } });
    const error = errorOf(() => resolveJob(life('ps-0'), {}));
    expect(error.message).toBe('--life needs an attempt id: without one, each call begins a new attempt');
    expect(resolveJob(life('ps-0'), slurm).life).toEqual({ value: 'ps-0', source: '--life' });
    const table = { parentPid: 7, readLink: () => 'pid:[42]', readText: textOf };
    expect(resolveJob(life('parent', 'HOLDFAST_LIFE'), slurm, table).life).toEqual({
      value: 'parent-0a1b2c3d-e4f5-42-7-9876',
      source: 'the parent process (HOLDFAST_LIFE)',
    });
  });

  it('several writers without an attempt are refused with what to do', () => {
    const writer = { value: { index: 2, count: 4 }, source: '--writer' };
    const error = errorOf(() => resolveJob({ writer, attempt: null }, {}));
    expect(error.message).toBe('writer 2 of 4 needs an attempt id (writer from --writer)');
    expect(String(error.context['advice'])).toContain('pass --attempt ID, or set HOLDFAST_ATTEMPT');
  });

  it.each<[Environment, string]>([
    [{ RANK: 'one', WORLD_SIZE: '2' }, 'RANK is "one", not a whole number'],
    [{ SLURM_PROCID: '4', SLURM_NTASKS: '4' }, 'there is no writer 4 of 4'],
    [{ RANK: '1' }, 'RANK is set, and WORLD_SIZE, which says how many there are, is not'],
    [{ SLURM_PROCID: '3' }, 'SLURM_PROCID is set, and SLURM_NTASKS, which says how many there are, is not'],
  ])('a launcher that contradicts itself is InvalidConfig: %o', (env, message) => {
    const error = errorOf(() => resolveJob(none, env));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain(message);
  });

  it.each([{ RANK: '0' }, { SLURM_PROCID: '0' }, { WORLD_SIZE: '4' }])('%o is no launcher', (env) => {
    expect(resolveJob(none, env).writer.source).toBe('the default');
  });
});

describe('terminal', () => {
  it.each<[Environment, boolean, boolean]>([
    [{}, true, true],
    [{}, false, false],
    [{ NO_COLOR: '1' }, true, false],
    [{ NO_COLOR: '' }, true, true],
    [{ TERM: 'dumb' }, true, false],
    [{ FORCE_COLOR: '1' }, false, true],
    [{ FORCE_COLOR: '0' }, true, false],
    [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
  ])('colour with %o, terminal %s: %s', (env, isTerminal, expected) => {
    expect(wantsColor(env, isTerminal)).toBe(expected);
  });

  it('a dumb terminal gets no moving lines', () => {
    expect(canRedraw({ TERM: 'dumb' }, true)).toBe(false);
    expect(canRedraw({}, true)).toBe(true);
  });

  it('an empty HOLDFAST_URI counts as absent', () => {
    expect(uriFromEnvironment({ HOLDFAST_URI: '' })).toBeNull();
    expect(uriFromEnvironment({ HOLDFAST_URI: 'memory://a' })).toBe('memory://a');
  });
});
