/** `export`: what it writes, says and refuses. */

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { layOutSafetensors } from '@holdfast/core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';

const URI = 'memory://export';
let directory: string;

/** A file with one byte for each tensor. */
function modelOf(...names: string[]): Uint8Array {
  const tensors = names.map((name) => ({ name, dtype: 'U8', shape: [1], sizeBytes: 1, what: name }));
  const { header, sizeBytes } = layOutSafetensors(tensors, {});
  const file = new Uint8Array(sizeBytes).fill(7);
  file.set(header);
  return file;
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-export-'));
  const saved = join(directory, 'saved');
  await mkdir(saved);
  await writeFile(join(saved, 'state.safetensors'), modelOf('model.a', 'model.b', 'optimizer.a'));
  await writeFile(join(saved, 'other.safetensors'), modelOf('model.c'));
  await writeFile(join(saved, 'config.json'), '{}');
  expect(await cli('save', saved, URI, '--version', '7')).toMatchObject({ code: 0 });
});
afterAll(() => rm(directory, { recursive: true }));

const place = (name: string) => join(directory, name);

test('says what it wrote', async () => {
  const options = ['--prefix', 'model.', '--from', 'state*', '--also', 'config.json'];
  const { code, stdout } = await cli('export', URI, place('a'), ...options);
  expect(stdout).toMatch(
    /^exported {2}version 7 {3}2 tensors {3}[\d.]+ KiB in 2 files .*every byte verified\n$/,
  );
  expect([code, (await readdir(place('a'))).sort()]).toEqual([0, ['config.json', 'model.safetensors']]);
});

test('its JSON has the documented names', async () => {
  const said = await asJson('export', URI, place('b'), '--file-size', '2B');
  const files = await Promise.all(
    (await readdir(place('b'))).sort().map(async (name) => {
      return { name, sizeBytes: (await readFile(place(`b/${name}`))).byteLength };
    }),
  );
  expect(files).toHaveLength(3);
  expect(said).toEqual({
    ...{ uri: URI, directory: place('b'), version: 7, tensorCount: 4, files },
    ...{ id: expect.anything(), durationMs: expect.any(Number) },
    sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  });
});

test('writes the layout of DCP', async () => {
  const options = ['--layout', 'distcp', '--prefix', 'model.'];
  expect(await cli('export', URI, place('d'), ...options)).toMatchObject({ code: 0 });
  expect((await readdir(place('d'))).sort()).toEqual(['.metadata', '__0_0.distcp']);
});

test.each<[string, string[], number, RegExp]>([
  ['an unknown layout', ['--layout', 'hf'], 2, /--layout: "hf" is not one of safetensors, distcp/],
  [
    'no tensor below the prefix',
    ['--prefix', 'x.'],
    6,
    /there are "model\.a", .*\n.*`holdfast inspect memory:\/\/export` shows the tensors/,
  ],
  ['a directory that is there', [], 7, /\n.*pass --replace to replace this one/],
  ['an odd size', ['--file-size', '5GB'], 2, /--file-size: "5GB" is not a size in binary units; write 5GiB/],
  ['no such version', ['--version', '9'], 6, /version 9/],
])('%s is refused', async (_, options, code, words) => {
  const there = place('c');
  await mkdir(there, { recursive: true });
  await writeFile(join(there, 'notes'), 'mine');
  const ended = await cli('export', URI, there, ...options);
  expect(ended.stderr).toMatch(words);
  expect([ended.code, ended.stdout]).toEqual([code, '']);
  expect(await readdir(there)).toEqual(['notes']);
});
