/** `locate`: the bytes of each file are where it says. */

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';

async function newRun(): Promise<{ readonly source: string; readonly uri: string; save(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-locate-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const source = join(directory, 'source');
  await mkdir(source);
  await writeFile(join(source, 'a b.bin'), 'content of a');
  await writeFile(join(source, 'c'), 'content of c');
  const uri = `file://${directory}/run`;
  let version = 0;
  const save = async () => {
    version += 1;
    const { code, stderr } = await cli(
      'save',
      source,
      uri,
      '--version',
      String(version),
      '--on-stale',
      'off',
    );
    if (code !== 0) throw new Error(stderr);
  };
  return { source, uri, save };
}

test('one prefix, or the object of each file', async () => {
  const { source, uri, save } = await newRun();
  await save();
  const first = await cli('locate', uri);
  const [title = '', ...lines] = first.stdout.split('\n');
  const prefix = /^version 1 {3}2 files {3}below (file:\/\/.*\/)$/.exec(title)?.[1] as string;
  expect(lines).toEqual(['', 'FILE      SIZE', 'a b.bin   12 B', 'c         12 B', '']);
  expect(await readFile(join(fileURLToPath(prefix), 'a b.bin'), 'utf8')).toBe('content of a');
  await save();
  await save();
  await writeFile(join(source, 'c'), 'changed');
  await save();
  const { stdout } = await cli('locate', uri);
  expect(stdout).toMatch(
    /^version 4 {3}2 files {3}no single prefix holds them\n\nFILE +SIZE {3}OBJECT\na b\.bin +12 B +file:/,
  );
  const found = (await asJson('locate', uri)) as unknown as {
    prefixUri: null;
    files: { name: string; uri: string }[];
  };
  expect(found.prefixUri).toBeNull();
  const contents = found.files.map(({ uri: at }) => readFile(at.slice('file://'.length), 'utf8'));
  expect(await Promise.all(contents)).toEqual(['content of a', 'changed']);
});

test('a run without the version, and no run', async () => {
  const { uri, save } = await newRun();
  expect(await cli('locate', uri)).toMatchObject({ code: 6, stdout: '' });
  await save();
  expect(await cli('locate', uri, '--version', '9')).toMatchObject({ code: 6, stdout: '' });
});
