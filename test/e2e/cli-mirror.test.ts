/** `holdfast mirror` as a process: its output, exit status and effects. */

import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import {
  cellsOf,
  contentOf,
  FILES,
  holdfast,
  newPlace,
  type Place,
  savedPlace,
  writeFiles,
} from './holdfast-process.ts';

const uriOf = (place: Place, name: string) => pathToFileURL(place.path(name)).href;

async function asJson(...args: string[]) {
  const { stdout } = await holdfast([...args, '--json']);
  return JSON.parse(stdout);
}

describe('from a directory to another', () => {
  test('each version is told of, the copy can be restored, and a second time there is nothing to do', async () => {
    const place = await savedPlace(1, 2);
    const to = uriOf(place, 'copy');
    const first = await holdfast(['mirror', place.uri, to]);
    expect(first.code).toBe(0);
    expect(first.stdout).toMatch(
      /^copied {2,}version 1 {2,}294 KiB in 3 files.*\ncopied {2,}version 2 .*\nmirrored {2,}2 versions {2,}588 KiB.*\n$/,
    );
    expect(cellsOf(first.stderr)).toContainEqual([`version 1 of ${place.uri} → ${to}`, '3 files', '294 KiB']);
    const restored = await holdfast(['restore', to, place.path('out')]);
    expect(restored.code).toBe(0);
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(place.path('ckpt')));
    const [original, copy] = [await asJson('list', place.uri), await asJson('list', to)];
    const versions = (list: typeof copy) =>
      list.checkpoints.map(({ version, committedAt, metrics }: Record<string, unknown>) => [
        ...[version, committedAt, metrics],
      ]);
    expect(versions(copy)).toEqual(versions(original));
    const again = await holdfast(['mirror', place.uri, to]);
    expect(cellsOf(again.stdout)).toEqual([['mirrored', '0 versions', '2 already there']]);
    expect(await holdfast(['mirror', place.uri, to, '--quiet'])).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  test('--json has the fields that are documented', async () => {
    const place = await savedPlace(1, 2);
    const to = uriOf(place, 'copy');
    const counted = { sizeBytes: 301_005, fileCount: 3, reusedBytes: 0 };
    expect(await asJson('mirror', place.uri, to, '--latest')).toEqual({
      from: place.uri,
      to,
      copied: [{ version: 2, id: { lineage: 1, epoch: 1, version: 2 }, ...counted }],
      present: [],
      annotated: [],
      skipped: [],
      sizeBytes: 301_005,
      durationMs: expect.any(Number),
    });
    expect(await asJson('mirror', place.uri, to)).toMatchObject({
      copied: [],
      present: [2],
      skipped: [{ version: 1, reason: 'it is not above 2, the highest that was committed here' }],
    });
  });

  test('--version and --since choose', async () => {
    const place = await savedPlace(1, 2, 3);
    const some = await asJson('mirror', place.uri, uriOf(place, 'a'), '--version', '3', '--version', '1');
    const later = await asJson('mirror', place.uri, uriOf(place, 'b'), '--since', '2');
    const versions = (result: typeof some) => result.copied.map((each: { version: number }) => each.version);
    expect([versions(some), versions(later)]).toEqual([
      [1, 3],
      [2, 3],
    ]);
  });

  test('--watch copies what is saved meanwhile, and ends with 0 at Ctrl-C', async () => {
    const place = await savedPlace(1);
    const to = uriOf(place, 'copy');
    let [isSaving, isStopped] = [false, false];
    const ended = await holdfast(
      ['mirror', place.uri, to, '--watch', '--interval', '100ms', '--progress', 'json'],
      {
        onStderr: (text, kill) => {
          if (text.includes('"type":"idle"') && !isSaving) {
            isSaving = true;
            void holdfast(['save', place.path('ckpt'), place.uri, '--version', '2']);
          }
          if (isStopped || !/"type":"committed","id":\{[^}]*"version":2\}/.test(text)) return;
          isStopped = true; // a second Ctrl-C would end it at once
          kill('SIGINT');
        },
      },
    );
    expect([ended.code, ended.stdout]).toEqual([0, expect.stringContaining('mirrored  2 versions')]);
    expect((await asJson('list', to)).checkpoints.length).toBe(2);
  });

  test('damage ends it with 5, and says where; --skip-corrupt passes the version over', async () => {
    const place = await savedPlace(1, 2);
    const [attempt] = await readdir(`${place.runDirectory}/version_1`);
    const writers = await readdir(`${place.runDirectory}/version_1/${attempt}`);
    const life = writers.find((name) => name.startsWith('0.0-'));
    const file = `${place.runDirectory}/version_1/${attempt}/${life}/model.bin`;
    const bytes = await readFile(file);
    bytes[5] = 0;
    await rm(file);
    await writeFile(file, bytes);
    const to = uriOf(place, 'copy');
    const failed = await holdfast(['mirror', place.uri, to]);
    expect(failed.code).toBe(5);
    expect(failed.stderr).toContain(`holdfast: version 1 of ${place.uri} is damaged: model.bin bytes 0–`);
    expect(failed.stderr).toContain('--skip-corrupt');
    const skipping = await holdfast(['mirror', place.uri, to, '--skip-corrupt']);
    expect([skipping.code, skipping.stdout]).toEqual([
      0,
      expect.stringMatching(
        /^skipped {2,}version 1 {2,}it is damaged in the source: model.bin.*\ncopied .*version 2/,
      ),
    ]);
  });
});

describe('what is refused', () => {
  test.each<[string, (place: Place) => string[], number, string]>([
    ['no operand', () => [], 2, 'mirror needs FROM and TO'],
    ['one operand', (place) => [place.uri], 2, 'mirror needs TO'],
    [
      'three operands',
      (place) => [place.uri, `${place.uri}2`, 'x'],
      2,
      'too many operands for mirror: 1 more than it takes',
    ],
    ['the same place twice', (place) => [place.uri, place.uri], 2, 'FROM and TO are the same'],
    ['the same place by two names', (place) => [place.uri, `${place.uri}/`], 2, 'both are the same run'],
    [
      'a plain path',
      (place) => [place.uri, place.path('copy')],
      2,
      'this takes a URI, and was given a path; write file:///',
    ],
    ['no run to copy from', (place) => [`${place.uri}-not`, uriOf(place, 'c')], 6, 'there is no run at'],
    [
      'a version that is not there',
      (place) => [place.uri, uriOf(place, 'c'), '--version', '9'],
      6,
      'version 9',
    ],
    [
      'two ways of choosing',
      (place) => [place.uri, uriOf(place, 'c'), '--latest', '--since', '1'],
      2,
      'cannot be combined',
    ],
    [
      '--watch of one version',
      (place) => [place.uri, uriOf(place, 'c'), '--watch', '--version', '1'],
      2,
      'cannot be combined',
    ],
    [
      'an interval without a unit',
      (place) => [place.uri, uriOf(place, 'c'), '--watch', '--interval', '10'],
      2,
      'has no unit',
    ],
    [
      'an interval of nothing',
      (place) => [place.uri, uriOf(place, 'c'), '--watch', '--interval', '0'],
      2,
      '--interval: "0" is too short; 100ms is the shortest',
    ],
    [
      'a buffer that is too small',
      (place) => [place.uri, uriOf(place, 'c'), '--buffer', '1KiB'],
      2,
      '--buffer: "1KiB" is not a size from 16MiB to 4194240KiB',
    ],
  ])('%s', async (_, args, code, message) => {
    const place = await savedPlace(1);
    const before = await contentOf(place.directory);
    const ended = await holdfast(['mirror', ...args(place)]);
    expect(ended.stderr).toContain(message);
    expect([ended.code, ended.stdout]).toEqual([code, '']);
    expect(await contentOf(place.directory)).toEqual(before);
  });

  test('a place that holds other checkpoints under the same versions', async () => {
    const place = await savedPlace(1);
    const other = await writeFiles(place, 'other', { 'a.txt': 'a' });
    const to = uriOf(place, 'copy');
    await holdfast(['save', other, to, '--version', '1']);
    const before = await contentOf(place.path('copy'));
    const ended = await holdfast(['mirror', place.uri, to]);
    expect(ended.code).toBe(7);
    expect(ended.stderr).toContain('version 1 is here already, with other content');
    expect(ended.stderr).toContain('mirror to a new place');
    expect(await contentOf(place.path('copy'))).toEqual(before);
  });
});

describeOnS3('holdfast mirror on S3', (server) => {
  test('to a bucket, from there to another, and back: byte for byte, large files too', async () => {
    const place = await newPlace();
    const large = Buffer.alloc(17 * 1024 * 1024, 'large ');
    const source = await writeFiles(place, 'ckpt', { ...FILES, 'a b/+ü.bin': large });
    const [first, second] = [await server().newBucket(), await server().newBucket()];
    const env = { ...first.env };
    const said = async (...args: string[]) => {
      const { code, stdout, stderr } = await holdfast([...args, '--json'], { env });
      return { code, stderr, ...JSON.parse(stdout || '{}') };
    };
    expect(await said('save', source, place.uri, '--version', '4', '--metric', 'loss=2')).toMatchObject({
      code: 0,
    });
    const back = uriOf(place, 'back');
    for (const [from, to] of [
      [place.uri, first.uri],
      [first.uri, second.uri],
      [second.uri, back],
    ] as const) {
      const mirrored = await said('mirror', from, to);
      expect(mirrored).toMatchObject({ code: 0, copied: [{ version: 4, fileCount: 4 }] });
      expect(await said('verify', to)).toMatchObject({ code: 0, problems: [] });
      expect(await said('mirror', from, to)).toMatchObject({ code: 0, copied: [], present: [4] });
    }
    expect(await said('restore', back, place.path('out'))).toMatchObject({ code: 0, version: 4 });
    expect(await contentOf(place.path('out'))).toEqual(await contentOf(source));
    const list = await said('list', back);
    expect(list.checkpoints[0]).toMatchObject({ metrics: { loss: 2 }, isLatest: true });
  });
});
