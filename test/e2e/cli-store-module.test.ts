/** Schemes that a user adds to the command, and errors for modules that add none. */

import { writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { holdfast, newPlace } from './holdfast-process.ts';

const FORM = '{ tape: { form: "tape://name", open: async () => { throw new Error("no tape") } } }';

test('a scheme of a module is opened, and listed where another is unknown', async () => {
  const place = await newPlace();
  await writeFile(place.path('tape.mjs'), `export const stores = ${FORM};`);
  const given = ['--store-module', place.path('tape.mjs')];
  const opened = await holdfast(['latest', 'tape://name', ...given]);
  expect(opened.stderr).toContain('no tape');
  const unknown = await holdfast(['latest', 'disk://name'], {
    env: { HOLDFAST_STORE_MODULE: place.path('tape.mjs') },
  });
  expect(unknown).toMatchObject({ code: 2, stdout: '' });
  expect(unknown.stderr).toContain('az://account/container/prefix, memory://name, tape://name');
});

test.each([
  ['nothing', '', 'it adds no store; it exports `stores`, such as'],
  ['stores that are none', 'export const stores = { tape: 3 };', 'its "tape" is no adapter'],
  [
    'a scheme of Holdfast',
    'export const stores = { s3: { form: "s3://x", open() {} } };',
    'the scheme s3 is taken',
  ],
  [
    'a form of another scheme',
    `export const stores = { disk: ${FORM}.tape };`,
    'the form of disk URIs must begin',
  ],
  ['what cannot be read', 'export const stores = {', 'it cannot be loaded'],
])('a module with %s is InvalidConfig', async (_, text, message) => {
  const place = await newPlace();
  await writeFile(place.path('module.mjs'), text);
  const ended = await holdfast(['latest', place.uri, '--store-module', 'module.mjs'], {
    cwd: place.directory,
  });
  expect(ended).toMatchObject({ code: 2, stdout: '' });
  expect(ended.stderr).toContain('the store module module.mjs: ');
  expect(ended.stderr).toContain(message);
});

test('a module that is not there is InvalidConfig', async () => {
  const { uri } = await newPlace();
  const ended = await holdfast(['latest', uri, '--store-module', '/none/module.mjs']);
  expect(ended).toMatchObject({ code: 2, stdout: '' });
  expect(ended.stderr).toContain('the store module /none/module.mjs: it cannot be loaded');
});

test('version tells the program, its Node and the code for CRC32C', async () => {
  const text = await holdfast(['version']);
  expect(text).toMatchObject({ code: 0, stderr: '' });
  expect(text.stdout).toMatch(
    /^holdfast \d+\.\d+\.\d+ {2,}Node 24\.[\d.]+ {2,}linux-(x64|arm64) {2,}CRC32C by (holdfast|node-rs)\n$/,
  );
  const json = JSON.parse((await holdfast(['version', '--json'])).stdout);
  expect(`holdfast ${json.version}\n`).toBe((await holdfast(['--version'])).stdout);
  expect(json.node).toBe(process.versions.node);
  expect(text.stdout).toContain(`CRC32C by ${json.crc32c}\n`);
  expect(await holdfast(['version', 'extra'])).toMatchObject({ code: 2, stdout: '' });
});
