/** The staging directory while other programs remove it, and other users take its name. */

import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Stage } from './stage.ts';

const JOIN = { uri: 'memory://run', attempt: 'a', index: 0, count: 1, life: 'f'.repeat(32), pid: 1 };
const WRITER = 'a'.repeat(32);

/** On a disk, and in memory, where the calls are made in place. */
const PLACES = [tmpdir(), '/dev/shm'].filter((place) => existsSync(place));

describe.each(PLACES)('a stage in %s', (place) => {
  let parent: string;
  let path: string;
  let stages: Stage[];

  beforeEach(() => {
    parent = realpathSync(mkdtempSync(join(place, 'holdfast-stage-')));
    path = join(parent, 'stage');
    stages = [];
  });

  afterEach(async () => {
    for (const stage of stages) await stage.close();
    rmSync(parent, { recursive: true, force: true });
  });

  async function open(): Promise<Stage> {
    const stage = await Stage.open(path);
    stages.push(stage);
    return stage;
  }

  const prepare = (stage: Stage) => stage.prepare(WRITER, JOIN, 'p');

  const takers: [string, () => void, string][] = [
    ['a directory that others may enter', () => mkdirSync(path), 'has mode 0777'],
    ['a symbolic link', () => symlinkSync(join(parent, 'other'), path), 'is a symbolic link'],
    ['a file', () => writeFileSync(path, ''), ''],
  ];
  if (process.getuid?.() === 0)
    takers.push(['a directory of another user', () => mkdirSync(path, 0o700), 'belongs to user 12345']);

  test.each(takers)('nothing is staged while %s has its name', async (_, take, says) => {
    const stage = await open();
    await prepare(stage);
    rmSync(path, { recursive: true });
    mkdirSync(join(parent, 'other'), 0o700);
    take();
    if (says.includes('0777')) chmodSync(path, 0o777);
    if (says.includes('12345')) chownSync(path, 12_345, 12_345);
    await expect(stage.keep()).rejects.toThrow(says);
    await expect(prepare(stage)).rejects.toThrow(says);
    await expect(stage.within(WRITER, async () => undefined)).rejects.toMatchObject({ code: 'NotFound' });
    expect(await stage.isThere(WRITER)).toBe(false);
    expect(await stage.placeOf(WRITER)).toBeUndefined();
    expect(await stage.view(WRITER)).toMatchObject({
      ...{ kind: 'none', freeBytes: 0 },
      reason: expect.stringContaining(says),
    });
    expect(readdirSync(join(parent, 'other'))).toEqual([]);
    rmSync(path, { recursive: true });
    await prepare(stage);
    expect(await stage.isThere(WRITER)).toBe(true);
    expect((await stage.view()).kind).not.toBe('none');
  });

  test('work in a directory stays there when another one gets its name', async () => {
    const stage = await open();
    await prepare(stage);
    const file = (root: string) => join(root, WRITER, 'segment-1');
    writeFileSync(file(path), 'mine');
    const read = await stage.within(WRITER, async (directory) => {
      renameSync(path, `${path}-moved`);
      mkdirSync(join(path, WRITER), { recursive: true });
      writeFileSync(file(path), 'of another user');
      return readFile(join(directory, 'segment-1'), 'utf8');
    });
    expect(read).toBe('mine');
    expect(readFileSync(file(path), 'utf8')).toBe('of another user');
  });

  test.each<[string, () => void]>([
    ['it', () => rmSync(path, { recursive: true })],
    ['its lock', () => rmSync(join(path, '.lock'))],
  ])('after another program has removed %s, a second agent is refused', async (_, remove) => {
    const first = await open();
    await prepare(first);
    remove();
    await prepare(first);
    expect(readdirSync(path).sort()).toEqual(['.lock', WRITER]);
    await expect(open()).rejects.toMatchObject({ code: 'AlreadyExists' });
  });

  test('an agent that has lost its directory to a second one stages nothing until that has ended', async () => {
    const first = await open();
    rmSync(path, { recursive: true });
    const second = await open();
    await expect(prepare(first)).rejects.toMatchObject({ code: 'AlreadyExists' });
    expect(await first.view()).toMatchObject({ kind: 'none' });
    await prepare(second);
    await second.close();
    await first.keep();
    await expect(open()).rejects.toMatchObject({ code: 'AlreadyExists' });
  });

  test('a parent that is gone, or is no directory any more, is an error and no crash', async () => {
    const stage = await open();
    rmSync(parent, { recursive: true });
    writeFileSync(parent, '');
    await expect(stage.keep()).rejects.toMatchObject({ code: expect.any(String), message: /stage/ });
    expect(await stage.view()).toMatchObject({ kind: 'none' });
    rmSync(parent);
    await stage.keep();
    expect(existsSync(join(path, '.lock'))).toBe(true);
  });

  test('a stage that was closed makes nothing', async () => {
    const stage = await open();
    await stage.close();
    expect(readdirSync(path)).toEqual([]);
    rmSync(path, { recursive: true });
    await expect(stage.keep()).rejects.toMatchObject({ code: 'Unavailable' });
    expect(existsSync(path)).toBe(false);
  });
});
