/**
 * `holdfast resume`, the first line of a job script: when it resumes, when it starts fresh, and
 * when it stops.
 */

import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { holdfast, newPlace, type Place, writeFiles } from './holdfast-process.ts';

const resume = (place: Place, ...options: string[]) =>
  holdfast(['resume', place.uri, place.path('ckpt'), ...options]);

async function savedRun(): Promise<Place> {
  const place = await newPlace();
  const source = await writeFiles(place, 'trained', { 'step.txt': '1200' });
  expect((await holdfast(['save', source, place.uri, '--version', '1200'])).code).toBe(0);
  return place;
}

describe('a run with checkpoints', () => {
  it('the latest is restored, again and again, in the place of what it has put there', async () => {
    const place = await savedRun();
    for (const options of [[], ['--or-start-fresh']]) {
      const { code, stdout } = await resume(place, ...options);
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^restored {2,}version 1200 /)]);
    }
    expect(await readFile(place.path('ckpt/step.txt'), 'utf8')).toBe('1200');
  });

  it('files that it has not put there are not replaced', async () => {
    const place = await savedRun();
    await writeFiles(place, 'ckpt', { 'mine.txt': 'x' });
    const { code, stderr } = await resume(place, '--or-start-fresh');
    expect([code, stderr]).toEqual([7, expect.stringContaining('(TargetExists, exit 7)')]);
    expect(await readFile(place.path('ckpt/mine.txt'), 'utf8')).toBe('x');
  });
});

describe('a run without a checkpoint', () => {
  it('is a fresh start if that is said, and else NotFound', async () => {
    const place = await newPlace();
    await mkdir(place.path('ckpt'));
    expect((await resume(place)).code).toBe(6);
    const told = await resume(place, '--or-start-fresh');
    expect(told).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^fresh start {2,}/) });
    const { stdout } = await resume(place, '--or-start-fresh', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ uri: place.uri, version: null, isFreshStart: true });
  });

  it('nor is one whose writers have not all delivered', async () => {
    const place = await newPlace();
    const source = await writeFiles(place, 'trained', { 'step.txt': '7' });
    const writer = ['--writer', '0/2', '--attempt', 'a', '--version', '7', '--no-wait'];
    expect((await holdfast(['save', source, place.uri, ...writer])).code).toBe(0);
    expect((await resume(place, '--or-start-fresh')).stdout).toMatch(/^fresh start/);
  });
});

it('with a life it joins the attempt, so that what the trainer saves next is of the same life', async () => {
  const place = await newPlace();
  const job = ['--attempt', 'a', '--life', 'l1'];
  expect((await resume(place, '--or-start-fresh', ...job)).stdout).toMatch(/^fresh start/);
  const source = await writeFiles(place, 'trained', { 'step.txt': '1' });
  expect((await holdfast(['save', source, place.uri, '--version', '1', ...job])).code).toBe(0);
  expect((await resume(place, '--or-start-fresh', ...job)).stdout).toMatch(/^restored {2,}version 1 /);
});

describe('what is no fresh start', () => {
  it('a catalog that is lost: the checkpoints are there', async () => {
    const place = await savedRun();
    const catalog = join(new URL(place.uri).pathname, 'catalog');
    await rm(catalog, { recursive: true });
    for (const command of [
      ['resume', place.uri, place.path('ckpt'), '--or-start-fresh'],
      ['latest', place.uri],
    ]) {
      const { code, stderr } = await holdfast(command);
      expect([code, stderr]).toEqual([5, expect.stringContaining('the catalog is lost')]);
    }
  });

  it('a place that holds runs: the URI is one segment short', async () => {
    const place = await savedRun();
    const above = place.uri.replace(/\/[^/]*$/, '');
    const ended = await holdfast(['resume', above, place.path('ckpt'), '--or-start-fresh']);
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([
      6,
      '',
      expect.stringContaining(`no run at ${above}; below it are `),
    ]);
  });

  it('a place within a run, and one behind a link that leads nowhere', async () => {
    const place = await savedRun();
    const ended = (uri: string) => holdfast(['resume', uri, place.path('ckpt'), '--or-start-fresh']);
    const within = await ended(`${place.uri}/step/7`);
    expect([within.code, within.stdout, within.stderr]).toEqual([
      6,
      '',
      expect.stringContaining(
        `no run at ${place.uri}/step/7; it lies in the run ${new URL(place.uri).pathname}`,
      ),
    ]);
    await symlink(place.path('not-mounted'), place.path('link'));
    const behind = await ended(pathToFileURL(place.path('link/run')).href);
    expect([behind.code, behind.stdout, behind.stderr]).toEqual([
      2,
      '',
      expect.stringContaining('link is a symbolic link to something that is not there'),
    ]);
  });

  it('a store that is down, one that denies, and one that is damaged', async () => {
    const place = await savedRun();
    const ended = async (uri: string, env: Record<string, string> = {}) =>
      (await holdfast(['resume', uri, place.path('ckpt'), '--or-start-fresh'], { env })).code;
    expect(await ended('s3://runs/x?endpoint=ftp://127.0.0.1')).toBe(2);
    const run = new URL(place.uri).pathname;
    await rename(join(run, 'catalog'), join(run, 'aside'));
    await writeFile(join(run, 'catalog'), 'no directory');
    expect(await ended(place.uri)).not.toBe(0);
  });
});
