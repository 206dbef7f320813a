/**
 * The packed command as an asynchronous trainer calls it: one process for each save, with several
 * of them as one writer.
 */

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { cleanEnv, type Ended, HOLDFAST, newPlace, type Place, run } from './holdfast-process.ts';

const FENCED = 4;
const USAGE = 2;

const holdfast = (...args: string[]): Promise<Ended> => run([...HOLDFAST, ...args]);

/** A save as one of two servers, without waiting for the other. */
async function save(place: Place, version: number, more: readonly string[], index = 0): Promise<Ended> {
  const file = place.path(`variables-${index}-of-2.chkpt`);
  await writeFile(file, `of version ${version}`);
  const whose = ['--writer', `${index}/2`, '--attempt', 'job-1', '--version', `${version}`];
  return holdfast('save', file, place.uri, '--no-wait', ...whose, ...more);
}

const versionsIn = async (place: Place): Promise<number[]> =>
  JSON.parse((await holdfast('list', place.uri, '--json')).stdout).checkpoints.map(
    ({ version }: { version: number }) => version,
  );

const as = (life: string): string[] => ['--life', life];

test('ten saves by two servers of which one is a version ahead: each version is committed', async () => {
  const place = await newPlace();
  for (let version = 1; version <= 5; version++) {
    expect(await save(place, version, as('ps-0'))).toMatchObject({ code: 0 });
    if (version > 1) expect(await save(place, version - 1, as('ps-1'), 1)).toMatchObject({ code: 0 });
  }
  expect(await versionsIn(place)).toEqual([4, 3, 2, 1]);
  expect((await save(place, 5, as('ps-1'), 1)).stdout).toMatch(/^committed {2,}version 5/);
});

test('saves of one life that overlap all succeed', async () => {
  const place = await newPlace();
  const saves = [1, 2, 3].map(async (version) => {
    const file = place.path(`of-${version}`);
    await writeFile(file, `of version ${version}`);
    const whose = ['--writer', '0/2', '--attempt', 'job-1', ...as('ps-0')];
    return holdfast('save', file, place.uri, '--no-wait', '--version', `${version}`, ...whose);
  });
  for (const ended of await Promise.all(saves)) expect(ended).toMatchObject({ code: 0 });
  for (const version of [1, 2, 3]) await save(place, version, as('ps-1'), 1);
  expect(await versionsIn(place)).toEqual([3, 2, 1]);
});

test('without a life a save takes the place of the one before, and a warning says what that voids', async () => {
  const place = await newPlace();
  await save(place, 1, []);
  const second = await save(place, 2, ['--json']);
  expect(second.code).toBe(0);
  expect(second.stderr).toMatch(
    /^holdfast: warning: version 1, delivered by process \d+ on \S+, can no longer be committed: this process replaced it as writer 0\n {2}if one trainer starts both processes, pass the same --life ID to both, so that they are one writer\n/,
  );
  expect(JSON.parse(second.stdout)).toMatchObject({
    life: null,
    voided: [{ writer: 0, versions: [1], isComplete: true, life: null }],
  });
});

describe('a supervisor starts the trainer again under a new life', () => {
  test('restore voids what the former one had delivered, with a warning, and fences it', async () => {
    const place = await newPlace();
    await save(place, 1, as('start-1'));
    await save(place, 1, as('ps-1'), 1);
    await save(place, 2, as('start-1'));
    const whose = ['--writer', '0/2', '--attempt', 'job-1'];
    const restored = await holdfast('restore', place.uri, place.path('out'), ...whose, ...as('start-2'));
    expect(restored.code).toBe(0);
    expect(restored.stdout).toContain('restored  version 1');
    expect(restored.stderr).toContain(
      'warning: version 2, delivered by life start-1 (first seen as process ',
    );
    const former = await save(place, 3, as('start-1'));
    expect(former.code).toBe(FENCED);
    expect(former.stderr).toContain('only the last one can commit');
    expect(former.stderr).not.toContain('stop this job');
    expect((await save(place, 2, as('start-2'))).stderr).not.toContain('warning');
    expect((await save(place, 2, as('ps-1'), 1)).stdout).toMatch(/^committed {2,}version 2/);
    const committing = await holdfast('commit', place.uri, '--version', '2', ...whose, ...as('start-2'));
    expect(committing).toMatchObject({ code: 0, stdout: expect.stringMatching(/^committed {2,}version 2/) });
  });

  test('resume joins too, where there is nothing to restore yet', async () => {
    const place = await newPlace();
    await save(place, 1, as('start-1'));
    const whose = ['--writer', '0/2', '--attempt', 'job-1', ...as('start-2'), '--or-start-fresh'];
    const resumed = await holdfast('resume', place.uri, place.path('out'), ...whose);
    expect(resumed).toMatchObject({ code: 0, stdout: expect.stringContaining('fresh start') });
    expect(resumed.stderr).toContain('warning: version 1, delivered by life start-1');
    expect((await save(place, 1, as('ps-1'), 1)).stdout).toContain('writer 0 not delivered yet');
  });

  test('--life parent: calls of one process are one writer, those of the next one are not', async () => {
    const place = await newPlace();
    const file = place.path('variables-0-of-2.chkpt');
    await writeFile(file, 'bytes');
    // A shell may replace itself with the last command of its script, so the last one is `true`.
    const script =
      'for v in "$@"; do "$NODE" "$HOLDFAST" save "$FILE" "$URI" --no-wait --version "$v" --quiet || exit; done; true';
    const [node = '', main = ''] = HOLDFAST;
    const env = {
      ...cleanEnv({ NODE: node, HOLDFAST: main, FILE: file, URI: place.uri }),
      ...{ HOLDFAST_WRITER: '0/2', HOLDFAST_ATTEMPT: 'job-1', HOLDFAST_LIFE: 'parent' },
    };
    const trainer = (...versions: string[]) =>
      promisify(execFile)('sh', ['-c', script, 'sh', ...versions], { env });
    expect((await trainer('1', '2')).stderr).toBe('');
    await save(place, 1, as('ps-1'), 1);
    expect(await versionsIn(place)).toEqual([1]);
    expect((await trainer('3')).stderr).toContain('warning: version 2, delivered by life parent-');
  });
});

describe('a life that cannot be used', () => {
  const ACCEPTED = 'it takes 1 to 256 characters, not only spaces, without control characters, or "parent"';

  test.each([
    ['empty', ['--life', ''], `--life: the life is empty; ${ACCEPTED}`],
    ['too long', ['--life', 'x'.repeat(300)], `--life: the life has 300 characters; ${ACCEPTED}`],
    [
      'with control characters',
      ['--life', 'a\tb'],
      `--life: the life holds a control character; ${ACCEPTED}`,
    ],
    ['an option', ['--life', '--json'], `--life: the life looks like an option; ${ACCEPTED}`],
    ['without a value', ['--life'], "option '--life <id>' argument missing"],
  ])('%s', async (_, more, message) => {
    const place = await newPlace();
    const ended = await save(place, 1, more);
    expect(ended).toMatchObject({ code: USAGE, stdout: expect.not.stringContaining('delivered') });
    expect(ended.stderr.split('\n')[0]).toBe(`holdfast: ${message}`);
    expect((await holdfast('latest', place.uri)).code).toBe(6);
  });

  test.each([
    ['save', ['save', '.', 'URI', '--life', 'a'], '--life needs an attempt id'],
    ['restore', ['restore', 'URI', 'out', '--attempt', 'a'], 'restore takes --attempt only with --life'],
    ['commit', ['commit', 'URI', '--writer', '0/2'], 'commit takes --writer only with --life'],
  ])('%s: options that cannot be combined', async (_, words, message) => {
    const place = await newPlace();
    const ended = await holdfast(...words.map((word) => (word === 'URI' ? place.uri : word)));
    expect(ended.code).toBe(USAGE);
    expect(ended.stderr).toContain(`holdfast: ${message}`);
  });
});
