/** An election from the shell, and the save of the elected trainer while the others continue. */

import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { sampleFiles } from '../elasticdl/sample-files.ts';
import { holdfast, newPlace, type Place, writeFiles } from './holdfast-process.ts';

async function output(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await holdfast(args);
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('holdfast:')]);
  return stdout;
}

const asJson = async (...args: string[]) => JSON.parse(await output(...args, '--json'));

/** Two servers, each at its own state. */
async function pollutedPlace(): Promise<Place> {
  const place = await newPlace();
  const files = sampleFiles({ version: 100, count: 2 });
  for (const [index, stateVersion] of ['98', '103'].entries()) {
    const name = `variables-${index}-of-2.ckpt`;
    const dir = await writeFiles(place, `ps${index}`, { [name]: files[name] as Uint8Array });
    const position = ['--version', '100', '--attempt', 'job', '--writer', `${index}/2`, '--no-wait'];
    const moment = ['--consistency', 'polluted', '--state-version', stateVersion];
    await output('save', dir, place.uri, ...position, ...moment);
  }
  return place;
}

describe('holdfast elect', () => {
  test('one of two processes is elected; in a script the status decides which one saves', async () => {
    const { uri } = await newPlace();
    const ask = (id: string) => holdfast(['elect', uri, '--id', id, '--for', '10m', '--json']);
    const both = await Promise.all([ask('t0'), ask('t1')]);
    expect(both.map(({ code }) => code).sort()).toEqual([0, 7]);
    const elected = both.map(({ stdout }) => JSON.parse(stdout)).filter(({ isElected }) => isElected);
    expect(elected).toHaveLength(1);
    const other = elected[0].id === 't0' ? 't1' : 't0';
    const again = await holdfast(['elect', uri, '--id', other, '--for', '10m']);
    expect([again.code, again.stderr]).toEqual([7, '']);
    expect(again.stdout).toContain(`not elected  ${elected[0].id} is elected, for 10 min at a time\n`);
  });
});

describe('a polluted checkpoint', () => {
  const said = /consistency polluted {2,}states of versions 98 to 103, taken within /;
  const writers = [98, 103].map((stateVersion, writer) => ({
    writer,
    consistency: 'polluted',
    stateVersion,
    takenAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  }));

  test('show, elasticdl inspect and elasticdl export say so, and so do the exported files', async () => {
    const { uri, path } = await pollutedPlace();
    expect(await output('show', uri)).toMatch(said);
    expect((await asJson('show', uri)).writers).toEqual(writers);
    expect(await output('elasticdl', 'inspect', uri)).toMatch(said);
    expect((await asJson('elasticdl', 'inspect', uri)).writers).toEqual(writers);
    expect(await output('elasticdl', 'export', uri, path('a.safetensors'))).toMatch(said);
    expect((await asJson('elasticdl', 'export', uri, path('b.safetensors'))).writers).toEqual(writers);
    const exported = writers.map((each) => ({ ...each, stateVersion: String(each.stateVersion) }));
    expect(JSON.parse(await readFile(path('a.json'), 'utf8')).writers).toEqual(exported);
    const file = await readFile(path('a.safetensors'));
    const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString());
    expect(JSON.parse(header.__metadata__.writers)).toEqual(exported);
  });

  test.each([
    [['--state-version', '7'], '--state-version needs --consistency polluted'],
    [
      ['--consistency', 'paused'],
      '--consistency: "paused" is not accepted; write polluted; a command cannot pause the training',
    ],
    [['--consistency', 'clean'], '--consistency: "clean" is not accepted; write polluted'],
    [['--consistency', 'polluted', '--state-version', '-1'], '--state-version: "-1" is not a version'],
  ])('save %j is refused with 2', async (args, words) => {
    const place = await newPlace();
    const dir = await writeFiles(place, 'ckpt', { 'a.bin': 'a' });
    const { code, stdout, stderr } = await holdfast(['save', dir, place.uri, ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(words);
  });
});
