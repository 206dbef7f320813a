/** What `--replace` deletes, and what it never deletes. */

import { spawn } from 'node:child_process';
import { existsSync, readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  atTerminal,
  cleanEnv,
  contentOf,
  HOLDFAST,
  holdfast,
  newPlace,
  type Place,
  underMounts,
  writeFiles,
} from './holdfast-process.ts';

async function saved(): Promise<Place> {
  const place = await newPlace();
  const source = await writeFiles(place, 'src', { 'model.bin': Buffer.alloc(100_000, 1), 'sub/b': 'b' });
  const done = await holdfast(['save', source, place.uri, '--quiet']);
  if (done.code !== 0) throw new Error(done.stderr);
  return place;
}

describe('restore --replace', () => {
  it('takes what a restore has put there, and nothing else', async () => {
    const place = await saved();
    const out = place.path('out');
    const restore = ['restore', place.uri, out, '--quiet'];
    expect((await holdfast(restore)).code).toBe(0);
    expect((await holdfast([...restore, '--replace', '--only', 'sub/*'])).code).toBe(0);
    expect(Object.keys(await contentOf(out))).toEqual(['sub/b']);
    // `--replace` takes no value from the next word. In the environment it is only a flag.
    expect((await holdfast(['restore', '--replace', place.uri, out, '--quiet'])).code).toBe(0);
    expect((await holdfast(restore, { env: { HOLDFAST_REPLACE: '1' } })).code).toBe(0);
    expect(await contentOf(out)).toEqual(await contentOf(place.path('src')));

    await writeFiles(place, 'out', { 'notes.txt': 'mine' });
    const refused = await holdfast([...restore, '--replace']);
    expect([refused.code, refused.stderr]).toEqual([
      7,
      `holdfast: ${out} holds 1 file that Holdfast did not put there, or that changed since, such as "notes.txt"
  --replace replaces only files that Holdfast put there and that have not changed since
  write to another place; --replace=everything says how many files it would delete, and asks
  (TargetExists, exit 7)
`,
    ]);
    const odd = await holdfast([...restore, '--replace=some']);
    expect([odd.code, odd.stderr]).toEqual([
      2,
      expect.stringContaining('--replace: "some" cannot be replaced'),
    ]);
  });

  it('the working directory is never replaced, empty or not; one that is gone is said to be', async () => {
    const place = await saved();
    await writeFiles(place, 'here/below', { mine: 'x' });
    for (const directory of [place.path('here'), place.path('here/below')]) {
      const refused = await holdfast(['restore', place.uri, '.'], { cwd: directory });
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('it is never replaced')]);
      expect(refused.stderr).not.toContain('--replace');
    }
    const { ino } = statSync(place.path('src/sub'));
    renameSync(place.path('src/sub/b'), place.path('b'));
    const empty = await holdfast(['restore', place.uri, '.'], { cwd: place.path('src/sub') });
    expect([empty.code, statSync(place.path('src/sub')).ino]).toEqual([2, ino]);

    const inGone = ['bash', '-c', 'rmdir "$PWD" && exec "$@"', 'bash', ...HOLDFAST];
    const gone = await holdfast(['restore', place.uri, 'out'], {
      program: inGone,
      cwd: place.path('src/sub'),
    });
    expect([gone.code, gone.stderr]).toEqual([6, expect.stringContaining('the working directory is gone')]);
  });

  it('what is no directory is refused without advice that cannot help', async () => {
    const place = await saved();
    symlinkSync('nothing', place.path('dangling'));
    for (const to of [place.path('src/model.bin'), place.path('dangling'), '/dev/null']) {
      for (const options of [[], ['--replace'], ['--replace=everything', '--apply']]) {
        const refused = await holdfast(['restore', place.uri, to, ...options]);
        expect([refused.code, refused.stderr]).toEqual([
          7,
          expect.stringContaining('(TargetExists, exit 7)'),
        ]);
        expect(refused.stderr).toContain('restore into a new or empty directory\n');
      }
    }
  });

  it('names on stderr what stays of an old directory, each time; puts no new directory into a run', async () => {
    const place = await saved();
    const out = place.path('out');
    const left = '.out.holdfast-0123456789abcdef.left-0';
    await writeFiles(place, left, { mine: 'mine' });
    for (const more of [[], ['--replace']]) {
      const done = await holdfast(['restore', place.uri, out, '--quiet', ...more]);
      expect([done.code, done.stderr]).toEqual([
        0,
        `holdfast: the old directory ${place.path(left)} stays: it contains files that Holdfast did not put there\n`,
      ]);
    }
    const inRun = `${place.runDirectory}/new`;
    const refused = await holdfast(['restore', place.uri, inRun]);
    expect([refused.code, existsSync(inRun)]).toEqual([2, false]);
    expect(refused.stderr).toContain(`lies in the run ${place.runDirectory}`);
  });

  it('=everything says how many files go, and asks; without a terminal it needs --apply', async () => {
    const place = await saved();
    const out = await writeFiles(place, 'out', { 'notes.txt': 'mine', 'deep/er/c': 'c' });
    const args = ['restore', place.uri, out, '--replace=everything', '--no-color'];
    const unasked = await holdfast(args);
    expect(unasked.code).toBe(2);
    expect(unasked.stderr).toContain('there is no terminal\n  pass --apply too if all of it may be deleted');
    const no = await atTerminal(args, 'n');
    expect([no.code, no.stdout]).toEqual([
      130,
      expect.stringMatching(
        /everything in it will be deleted: 2 files, none of which Holdfast put there\r\nreplace it\? \[y\/N\] /,
      ),
    ]);
    expect(Object.keys(await contentOf(out))).toEqual(['deep/er/c', 'notes.txt']);
    expect((await atTerminal(args, 'y')).code).toBe(0);
    expect(await contentOf(out)).toEqual(await contentOf(place.path('src')));
    // Nothing is left to confirm.
    expect((await holdfast(args)).code).toBe(0);
    await writeFiles(place, 'out', { 'notes.txt': 'mine' });
    const applied = await holdfast([...args, '--apply', '--json']);
    expect([applied.code, JSON.parse(applied.stdout).fileCount]).toEqual([0, 2]);
  });

  it('never takes the run, a parent of it, another run, the working directory or a mount point', async () => {
    const place = await saved();
    const other = place.path('other');
    expect((await holdfast(['fork', place.uri, `file://${other}`, '--quiet'])).code).toBe(0);
    symlinkSync(place.directory, place.path('link'));
    const before = await contentOf(place.runDirectory);
    const refused = async (to: string, why: string, cwd?: string) => {
      const args = ['restore', place.uri, to, '--replace=everything', '--apply'];
      const ended = await holdfast(args, cwd === undefined ? {} : { cwd });
      expect([to, ended.code, ended.stderr]).toEqual([to, 2, expect.stringContaining(why)]);
      expect(ended.stderr).toContain('never replaced');
    };
    await refused(place.runDirectory, 'is a run');
    await refused(`${place.runDirectory}/version_1/../.`, 'is a run');
    await refused(place.directory, 'holds one');
    await refused(place.path('link'), 'holds one');
    await refused(other, 'is a run');
    await refused('.', 'is the working directory', place.path('src'));
    await refused(place.path('src'), 'is the working directory', place.path('src/sub'));
    const script = `mkdir -p alias disk/sub && mount --bind src alias && mount -t tmpfs none disk/sub && touch disk/sub/mine
      for dir in alias disk; do
        holdfast restore '${place.uri}' $dir --replace=everything --apply 2>&1 && exit 1
      done
      ls src disk/sub`;
    const { stdout, stderr } = await underMounts(place.directory, script);
    expect([stdout, stderr]).toEqual([
      expect.stringMatching(
        /alias is a mount point: .*disk holds a mount point, .*disk\/sub:.*model\.bin\nsub/s,
      ),
      '',
    ]);
    expect(stdout).toContain('mine');
    expect(await contentOf(place.runDirectory)).toEqual(before);
  });

  it('what a killed restore has left goes with the next one, which puts back what was moved aside', async () => {
    const place = await newPlace();
    const files = Array.from({ length: 40 }, (_, index) => [`f${index}`, Buffer.alloc(2_000_000, index)]);
    const source = await writeFiles(place, 'src', Object.fromEntries(files));
    expect((await holdfast(['save', source, place.uri, '--quiet'])).code).toBe(0);
    const out = place.path('out');
    const restore = ['restore', place.uri, out, '--quiet'];
    const child = spawn(HOLDFAST[0]!, [...HOLDFAST.slice(1), ...restore, '--concurrency', '1'], {
      env: cleanEnv(),
    });
    const hidden = () => readdirSync(place.directory).filter((name) => name.startsWith('.out.'));
    const ended = new Promise((resolve) => child.on('close', (_, signal) => resolve(signal)));
    while (hidden().length === 0 || readdirSync(place.path(hidden()[0]!)).length < 2)
      await new Promise((resolve) => setTimeout(resolve, 2));
    child.kill('SIGKILL');
    expect([await ended, hidden().length]).toEqual(['SIGKILL', 1]);
    const left = hidden()[0]!;
    // The state after a kill between the two renames.
    await writeFiles(place, 'out', { 'notes.txt': 'mine' });
    renameSync(out, place.path(`${left}.old`));
    const refused = await holdfast(restore);
    expect([refused.code, readdirSync(out), hidden()]).toEqual([7, ['notes.txt'], []]);
    expect((await holdfast([...restore, '--replace=everything', '--apply'])).code).toBe(0);
    expect(hidden().filter((name) => !name.endsWith('.made-0'))).toEqual([]);
    expect(await contentOf(out)).toEqual(await contentOf(source));
  });
});

describe('other commands that replace', () => {
  it('a certificate does not take the place of a file of a run, nor does a new one go into it', async () => {
    const place = await saved();
    const entry = `${place.runDirectory}/catalog/00000000000000000001.json`;
    const { size } = statSync(entry);
    const args = ['certify', `file://${place.path('certified')}`, '--output', entry, '--replace'];
    const ended = await holdfast(args);
    expect([ended.code, ended.stderr]).toEqual([
      2,
      expect.stringContaining(`lies in the run ${place.runDirectory}`),
    ]);
    expect(statSync(entry).size).toBe(size);
    const inRun = `${place.runDirectory}/certificate.json`;
    const added = await holdfast(['certify', `file://${place.path('certified')}`, '--output', inRun]);
    expect([added.code, added.stderr, existsSync(inRun)]).toEqual([
      2,
      expect.stringContaining(`lies in the run ${place.runDirectory}`),
      false,
    ]);
    const kept = place.path('certificate.json');
    writeFileSync(kept, 'first');
    const refused = await holdfast(['certify', `file://${place.path('certified')}`, '--output', kept]);
    expect([refused.code, refused.stderr]).toEqual([7, expect.stringContaining('pass --replace')]);
    expect(existsSync(place.path('certified'))).toBe(false);
  });
});
