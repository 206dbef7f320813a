/** `holdfast watch` as a process beside a trainer. */

import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { holdfast, newPlace, type Place } from './holdfast-process.ts';

vi.setConfig({ testTimeout: 60_000 });

/** A trainer that writes under another name, and renames. */
async function write(place: Place, version: number, text = `state ${version}`): Promise<void> {
  const temporary = join(place.path('out'), `tmp-${version}`);
  await mkdir(temporary, { recursive: true });
  await writeFile(join(temporary, 'model'), text);
  await rename(temporary, join(place.path('out'), `step-${version}`));
}

async function versionsIn(uri: string): Promise<number[]> {
  const { stdout } = await holdfast(['list', uri, '--json']);
  const { checkpoints } = JSON.parse(stdout) as { checkpoints: { version: number }[] };
  return checkpoints.map(({ version }) => version);
}

describe('watch', () => {
  test('saves what a trainer writes and rotates, until a signal; another one goes on', async () => {
    const place = await newPlace();
    await write(place, 1);
    let trainer: Promise<void> | undefined;
    const words = ['watch', place.path('out'), place.uri, '--complete-when', 'rename', '--interval', '100ms'];
    const first = await holdfast([...words, '--verbose'], {
      onSpawn: (kill) => {
        trainer = (async () => {
          await vi.waitFor(async () => expect(await versionsIn(place.uri)).toEqual([1]), 30_000);
          await write(place, 2);
          await rm(join(place.path('out'), 'step-1'), { recursive: true });
          await vi.waitFor(async () => expect(await versionsIn(place.uri)).toEqual([2, 1]), 30_000);
          kill('SIGTERM');
        })();
      },
    });
    await trainer;
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(
      /saved {2}version 1 .*\nsaved {2}version 2 .*\nwatched {2}1 directory {3}2 versions saved\n$/,
    );
    await write(place, 3);
    const second = await holdfast([...words, '--once', '--json']);
    expect(JSON.parse(second.stdout)).toEqual({
      directories: [{ path: place.path('out'), uri: place.uri, saved: [3], notSaved: [] }],
    });
  });

  test.each([
    ['SIGTERM', ['--after-sigterm', '2s'], 'SIGTERM: watching continues for up to 2 s', true],
    ['SIGTERM', [], 'ending cleanly', false],
    ['SIGINT', ['--after-sigterm', '2s'], 'ending cleanly', false],
  ])('%s while the command still loads, %j: %s', async (signal, words, said, isSaved) => {
    const place = await newPlace();
    await write(place, 1);
    // Sends the signal when the command has begun to load its program.
    const hook = place.path('hook.mjs');
    await writeFile(
      hook,
      `import { registerHooks } from 'node:module';
      registerHooks({
        resolve(specifier, context, next) {
          if (/program[^/]*$/.test(specifier)) process.kill(process.pid, '${signal}');
          return next(specifier, context);
        },
      });`,
    );
    const { code, stderr } = await holdfast(
      ['watch', place.path('out'), place.uri, '--complete-when', 'rename', '--interval', '100ms', ...words],
      { env: { NODE_OPTIONS: `--import=${hook}` } },
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining(said)]);
    if (isSaved) expect(await versionsIn(place.uri)).toEqual([1]);
  });

  test('several directories, and one of them is of a newer attempt', async () => {
    const place = await newPlace();
    await write(place, 1);
    const other = `${place.uri}-2`;
    const pairs = [place.path('out'), place.uri, place.path('other'), other];
    let taken: Promise<unknown> | undefined;
    const ended = await holdfast(['watch', ...pairs, '--complete-when', 'rename', '--interval', '100ms'], {
      onSpawn: () => {
        taken = (async () => {
          await vi.waitFor(async () => expect(await versionsIn(place.uri)).toEqual([1]), 30_000);
          await holdfast(['save', place.path('out'), place.uri, '--version', '2']);
          await write(place, 3);
        })();
      },
    });
    await taken;
    expect(ended.code).toBe(4);
    expect(ended.stderr).toContain('(Fenced, exit 4)');
  });

  test('what is complete and cannot be saved sets the exit status', async () => {
    const place = await newPlace();
    await write(place, 1);
    await symlink('model', join(place.path('out'), 'step-1', 'link'));
    await write(place, 2);
    const words = ['watch', place.path('out'), place.uri, '--complete-when', 'rename', '--once', '--json'];
    const first = await holdfast(words);
    const path = join(place.path('out'), 'step-1');
    expect(first.code).toBe(2);
    expect(JSON.parse(first.stdout)).toMatchObject({
      directories: [{ saved: [2], notSaved: [{ path, version: 1, code: 'InvalidArgument' }] }],
      error: {
        code: 'InvalidArgument',
        message: expect.stringContaining(`version 1 in ${path} is not saved`),
      },
    });
    // It is older than the latest by now, so it never will be saved.
    const second = await holdfast(words);
    expect(second.code).toBe(0);
    expect(JSON.parse(second.stdout)).toMatchObject({
      directories: [{ saved: [], notSaved: [{ version: 1 }] }],
    });
  });

  test.each(['step-1', 'step-1/below'])(
    'a name in %s that is not UTF-8 is told, and sets the exit status',
    async (below) => {
      const place = await newPlace();
      await write(place, 1);
      await write(place, 2);
      const directory = join(place.path('out'), below);
      await mkdir(directory, { recursive: true });
      await writeFile(Buffer.concat([Buffer.from(`${directory}/`), Buffer.of(0xff)]), 'odd');
      const words = ['watch', place.path('out'), place.uri, '--complete-when', 'rename', '--once', '--json'];
      const { code, stdout } = await holdfast(words);
      expect(code).toBe(2);
      expect(JSON.parse(stdout)).toMatchObject({
        directories: [{ saved: [2], notSaved: [{ version: 1, code: 'InvalidArgument' }] }],
        error: { message: expect.stringContaining('is not valid UTF-8') },
      });
    },
  );

  test('a directory that is not there sets the exit status', async () => {
    const { uri, path } = await newPlace();
    const words = ['watch', path('nowhere'), uri, '--complete-when', 'rename', '--once'];
    const { code, stderr } = await holdfast(words);
    expect([code, stderr]).toEqual([6, expect.stringMatching(/nothing is saved: cannot read the directory/)]);
  });

  test.each([
    [
      'one run twice',
      ['DIR', 'URI', 'other', 'URI', '--complete-when', 'rename'],
      'watch takes each run once',
    ],
    ['no rule', ['DIR', 'URI'], 'watch needs --complete-when'],
    ['no run', ['DIR', '--complete-when', 'rename'], 'watch takes a directory and the URI of its run'],
    [
      'quiet at one look',
      ['DIR', 'URI', '--once', '--complete-when', 'quiet:3s'],
      '--once cannot be combined',
    ],
    ['another rule', ['DIR', 'URI', '--complete-when', 'soon'], '"soon" is not known; write rename,'],
    [
      'no version',
      ['DIR', 'URI', '--complete-when', 'rename', '--pattern', 'a'],
      '"a" must contain {version} once',
    ],
    [
      'an interval of nothing',
      ['DIR', 'URI', '--complete-when', 'rename', '--interval', '0s'],
      '"0s" is too short',
    ],
  ])('%s is refused with 2', async (_, words, message) => {
    const { uri, path } = await newPlace();
    const own = words.map((word) => ({ DIR: path('out'), URI: uri })[word] ?? word);
    const { code, stderr } = await holdfast(['watch', ...own]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('a directory of the run itself is refused', async () => {
    const place = await newPlace();
    await write(place, 1);
    const inside = `file://${place.path('out')}/step-1/run`;
    const words = ['watch', place.path('out'), inside, '--complete-when', 'rename', '--once'];
    const { stderr } = await holdfast(words);
    expect(stderr).toContain('holds the run that it would be saved to');
  });
});
