/** rollback, fork, diff, lease and quarantine as processes, on a local disk. */

import { readFile, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { cellsOf, contentOf, FILES, holdfast, savedPlace, writeFiles } from './holdfast-process.ts';

test('a run goes back, is forked, compared and leased; each leaves what it says', async () => {
  const place = await savedPlace(1);
  const { uri } = place;
  const other = await writeFiles(place, 'other', { ...FILES, 'notes.txt': 'longer' });
  await holdfast(['save', other, uri, '--version', '2']);
  const said = async (...args: string[]) => {
    const { code, stdout, stderr } = await holdfast(args);
    expect([code, stderr.includes('(')]).toEqual([0, false]);
    return stdout;
  };
  expect(cellsOf(await said('diff', uri, '1', '2'))).toEqual([
    ['version 1 → 2'],
    ['changed', 'notes.txt', '5 B → 6 B'],
    ['the same: 2 files, 294 KiB'],
  ]);
  const fork = pathToFileURL(place.path('fork')).href;
  expect(await said('fork', `${uri}@1`, fork)).toMatch(/^forked {2,}version 1/);
  await said('restore', fork, place.path('out'));
  expect(await contentOf(place.path('out'))).toEqual(await contentOf(place.path('ckpt')));
  const { id } = JSON.parse(await said('lease', uri, '--for', '1h', '--json'));
  expect(await said('lease', uri, '--list')).toContain(id);
  expect(await said('rollback', uri, '--to', '1', '--reason', 'a test')).toContain('version 1 is the latest');
  expect(await said('latest', uri)).toBe('1\n');
});

test('damage says how to take the version out of use; then latest and the log tell that it is', async () => {
  const place = await savedPlace(1);
  const { uri } = place;
  await holdfast(['save', place.path('ckpt'), uri, '--version', '2', '--dedupe', 'off']);
  const files = Object.keys(await contentOf(place.runDirectory));
  const path = `${place.runDirectory}/${files.find((each) => /^version_2\/.*model\.bin$/.test(each))}`;
  const bytes = await readFile(path);
  await writeFile(path, bytes.fill(0, 0, 1));
  const found = await holdfast(['verify', uri]);
  expect(found.code).toBe(5);
  expect(found.stderr).toContain(
    `\`holdfast verify ${uri} --version 2 --quarantine\` takes this one out of use`,
  );
  const out = await holdfast(['verify', uri, '--quarantine']);
  expect([out.code, out.stdout]).toEqual([5, expect.stringMatching(/^damaged {2,}model\.bin/)]);
  expect(out.stderr).toContain(
    'version 2 is quarantined: no restart will load it; version 1 is the latest now',
  );
  expect((await holdfast(['latest', uri])).stdout).toBe('1\n');
  const unusable = await holdfast(['restore', uri, place.path('to'), '--version', '2']);
  expect([unusable.code, unusable.stderr]).toEqual([
    5,
    expect.stringMatching(
      /^holdfast: version 2 is quarantined: .*; the newest of 1 that can be restored is 1\n {2}nothing was changed\n {2}`holdfast list .*` shows which versions are live\n/,
    ),
  ]);
  const { entries } = JSON.parse((await holdfast(['log', uri, '--limit', '1', '--json'])).stdout);
  expect(entries[0]).toMatchObject({ kind: 'quarantine', checkpoints: [{ version: 2 }] });
  expect(entries[0].reason).toContain('model.bin bytes 0');
  const refused = await holdfast(['rollback', uri, '--to', '2', '--reason', 'x']);
  expect([refused.code, refused.stderr]).toEqual([
    7,
    expect.stringContaining('version 2 is quarantined: verify: '),
  ]);
});
