/** Names that are not valid UTF-8: the command works with no other file or directory instead. */

import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { HOLDFAST, holdfast, newPlace, writeFiles } from './holdfast-process.ts';

const INVALID = `$'jos\\xe9'`;
/** What Node makes of it, and what a directory beside may really be called. */
const VALID = 'jos\u{fffd}';

async function saved() {
  const place = await newPlace();
  const source = await writeFiles(place, 'src', { 'model.bin': 'model' });
  expect((await holdfast(['save', source, place.uri, '--quiet'])).code).toBe(0);
  await writeFiles(place, VALID, { 'other.bin': 'of another directory' });
  execFileSync('bash', ['-c', `mkdir ${INVALID} && echo mine > ${INVALID}/mine.bin`], {
    cwd: place.directory,
  });
  const before = listing(place.directory);
  /** Runs a script in which `holdfast` is a command. `$@` is the command, `$URI` the run. */
  const script = (text: string) =>
    holdfast([], {
      program: ['bash', '-c', `cd "$0" && ${text}`, place.directory, ...HOLDFAST],
      env: { URI: place.uri },
    });
  return { place, before, script };
}

function listing(directory: string): string[] {
  const found = execFileSync('find', ['.', '-path', './run', '-prune', '-o', '-print'], { cwd: directory });
  return found.toString('latin1').split('\n').sort();
}

describe('a name that is not valid UTF-8', () => {
  it.each([
    ['restore "$URI" out'],
    ['save . "$URI"'],
    ['report "$URI" --out r.html'],
    ['watch . "$URI" --complete-when rename --once'],
    ['list "$URI"'],
  ])('the working directory: %s', async (words) => {
    const { place, before, script } = await saved();
    const { code, stdout, stderr } = await script(`cd ${INVALID} && "$@" ${words}`);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('the path of the working directory is not valid UTF-8');
    expect(listing(place.directory)).toEqual(before);
  });

  it.each([[`save ${INVALID} "$URI"`], [`restore "$URI" ${INVALID} --replace=everything --apply`]])(
    'an argument: %s',
    async (words) => {
      const { place, before, script } = await saved();
      const { code, stdout, stderr } = await script(`"$@" ${words}`);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/argument [23] is not valid UTF-8/);
      expect(listing(place.directory)).toEqual(before);
    },
  );

  it('is not taken for a valid name that has the replacement character', async () => {
    const { place, script } = await saved();
    expect(await script(`"$@" save '${VALID}' "$URI" --quiet`)).toMatchObject({ code: 0, stderr: '' });
    expect((await script(`cd '${VALID}' && "$@" restore "$URI" out --quiet`)).code).toBe(0);
    expect(listing(place.directory).filter((name) => name.endsWith('out/other.bin'))).toHaveLength(1);
  });

  it('in the working directory, and the help is shown all the same', async () => {
    const { script } = await saved();
    expect((await script(`cd ${INVALID} && "$@" --help`)).code).toBe(0);
  });
});
