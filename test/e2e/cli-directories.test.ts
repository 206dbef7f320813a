/**
 * Empty directories and modification times with the command line: saved, shown, restored and
 * replaced.
 */

import { mkdir, readdir, rmdir, stat, symlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { holdfast, newPlace, type Place, writeFiles } from './holdfast-process.ts';

/** Files and directories below a directory of the place. */
async function treeOf(place: Place, name: string): Promise<string[]> {
  return (await readdir(place.path(name), { recursive: true })).sort();
}

async function run(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await holdfast(args);
  if (code !== 0) throw new Error(`${code}: ${stderr}`);
  return stdout;
}

it('empty directories are saved and restored; --exclude and --links hold for them, --only and --replace too', async () => {
  const place = await newPlace();
  const source = await writeFiles(place, 'src', { 'model.bin': 'm', 'sub/b': 'b', 'tmp/x.tmp': 'x' });
  for (const name of ['logs/tb', 'cache/deep', 'elsewhere'])
    await mkdir(place.path(`src/${name}`), { recursive: true });
  await symlink('../elsewhere', place.path('src/elsewhere/link'));
  const save = ['save', source, place.uri, '--version', '1', '--json'];
  const options = ['--exclude', 'cache', '--exclude', '**/*.tmp', '--links', 'skip'];
  expect(JSON.parse(await run(...save, ...options))).toMatchObject({ fileCount: 2 });
  const shown = JSON.parse(await run('show', place.uri, '--json'));
  expect(shown.directories).toEqual(['elsewhere', 'logs/tb', 'tmp']);
  const text = await run('show', place.uri);
  expect(text).toContain('in 2 files and 3 empty directories');
  expect(text).toMatch(/^logs\/tb\/ *$/m);

  const all = ['elsewhere', 'logs', 'logs/tb', 'model.bin', 'sub', 'sub/b', 'tmp'];
  await run('restore', place.uri, place.path('out'));
  expect(await treeOf(place, 'out')).toEqual(all);
  // A restore replaces what an earlier restore made, both files and directories, even if some are
  // missing.
  await rmdir(place.path('out/tmp'));
  await run('restore', place.uri, place.path('out'), '--replace', '--only', 'logs/**', '--only', 'sub/*');
  expect(await treeOf(place, 'out')).toEqual(['logs', 'logs/tb', 'sub', 'sub/b']);
  await run('resume', place.uri, place.path('out'));
  expect(await treeOf(place, 'out')).toEqual(all);

  // Saving the same content again succeeds. Without one of the directories the content differs.
  expect(JSON.parse(await run(...save, ...options))).toMatchObject({ wasCommittedBefore: true });
  const other = await holdfast([...save, ...options, '--exclude', 'logs']);
  expect([other.code, other.stderr]).toEqual([7, expect.stringContaining('with other content')]);
});

it('a directory whose name can be no file name is refused, and so is one without any file', async () => {
  const place = await newPlace();
  const source = await writeFiles(place, 'src', { a: 'a' });
  await mkdir(place.path('src/back\\slash'));
  const refused = await holdfast(['save', source, place.uri]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('it holds a backslash')]);
  await run('save', source, place.uri, '--exclude', 'back*');
  await mkdir(place.path('bare/x'), { recursive: true });
  const bare = await holdfast(['save', place.path('bare'), place.uri]);
  expect([bare.code, bare.stderr]).toEqual([2, expect.stringContaining('holds no file')]);
});

it('--mtimes gives back the times of files and empty directories, also to --replace and resume', async () => {
  const place = await newPlace();
  const source = await writeFiles(place, 'src', { 'model.bin': 'm', 'sub/b': 'b' });
  await mkdir(place.path('src/logs'));
  const names = ['model.bin', 'sub/b', 'logs'];
  for (const name of names) await utimes(join(source, name), 1_600_000_000.1234, 1_600_000_000.1234);
  await run('save', source, place.uri);
  const timesOf = (name: string) =>
    Promise.all(names.map(async (each) => Math.floor((await stat(place.path(`${name}/${each}`))).mtimeMs)));
  const wanted = [1_600_000_000_123, 1_600_000_000_123, 1_600_000_000_123];
  const { files } = JSON.parse(await run('show', place.uri, '--json'));
  expect(files).toMatchObject([
    { name: 'model.bin', modifiedAt: '2020-09-13T12:26:40.123Z' },
    { name: 'sub/b', modifiedAt: '2020-09-13T12:26:40.123Z' },
  ]);
  await run('restore', place.uri, place.path('plain'));
  for (const timeMs of await timesOf('plain')) expect(timeMs).toBeGreaterThan(1_700_000_000_000);
  for (const command of [
    ['restore', '--mtimes'],
    ['restore', '--mtimes', '--replace'],
    ['resume', '--mtimes'],
  ]) {
    await run(...command, place.uri, place.path('out'));
    expect(await timesOf('out')).toEqual(wanted);
  }
  // A save of the restored directory has the same content and times.
  await run('save', place.path('out'), place.uri, '--version', '7');
  const again = JSON.parse(await run('show', place.uri, '--json'));
  expect(again.files.map((each: { modifiedAt: string }) => each.modifiedAt)).toEqual([
    '2020-09-13T12:26:40.123Z',
    '2020-09-13T12:26:40.123Z',
  ]);
  const odd = await holdfast(['restore', place.uri, place.path('odd'), '--mtimes=yes']);
  expect([odd.code, odd.stderr]).toEqual([2, expect.stringContaining('--mtimes')]);
});
