/** The command line on a run in a bucket: the effect and exit status of each command. */

import { readFile, rm } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { viewOfRun } from '../cloud/run-view.ts';
import { CLOUDS } from '../servers/clouds.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { contentOf, FILES, holdfast, newPlace, type Place, tokenOf, writeFiles } from './holdfast-process.ts';

for (const cloud of CLOUDS) {
  cloud.describeOn(`holdfast on ${cloud.title}`, (server) => {
    let run: TestBucket;
    let place: Place;
    let source: string;
    beforeAll(async () => {
      run = await server().newBucket();
      place = await newPlace();
      // Files above 16 MiB are sent in parts.
      const large = Buffer.alloc(17 * 1024 * 1024, 'large ');
      source = await writeFiles(place, 'ckpt', { ...FILES, 'a b/+ü.bin': large });
      return () => place.remove();
    });

    async function said(...args: string[]) {
      const { code, stdout, stderr } = await holdfast([...args, '--json'], { env: { ...run.env } });
      return { code, ...JSON.parse(stdout === '' ? '{}' : stdout), stderr };
    }

    /** The same for a command that has to succeed. Otherwise the test fails with all it said. */
    async function succeeded(...args: string[]) {
      const result = await said(...args);
      if (result.code !== 0) throw new Error(`${args.join(' ')}: ${JSON.stringify(result, null, 2)}`);
      return result;
    }

    test('what is saved is listed, shown, verified, and comes back byte for byte', async () => {
      const { uri } = run;
      expect(await succeeded('save', source, uri, '--version', '1', '--metric', 'loss=2')).toMatchObject({
        ...{ version: 1, isCommitted: true, fileCount: 4 },
      });
      expect(await succeeded('save', `${source}/notes.txt`, uri)).toMatchObject({
        version: 2,
        fileCount: 1,
      });
      const listed = await succeeded('list', uri);
      expect(listed.checkpoints.map((each: { version: number }) => each.version)).toEqual([2, 1]);
      const shown = await succeeded('show', uri, '--version', '1');
      expect(shown.files.map((file: { name: string }) => file.name)).toContain('a b/+ü.bin');
      const { entries } = await succeeded('log', uri);
      expect(entries.map((entry: { kind: string }) => entry.kind)).toEqual([
        ...['commit', 'takeover', 'commit', 'takeover'],
      ]);
      expect(await succeeded('verify', uri, '--version', '1')).toMatchObject({ problems: [], level: 2 });
      await succeeded('restore', uri, place.path('out'), '--version', '1');
      expect(await contentOf(place.path('out'))).toEqual(await contentOf(source));
      const latest = await holdfast(['latest', uri], { env: { ...run.env } });
      expect(latest).toEqual({ code: 0, stdout: '2\n', stderr: '' });
      await rm(place.path('out'), { recursive: true });
      expect(await succeeded('restore', uri, place.path('out'))).toMatchObject({ version: 2 });
      expect(await readFile(place.path('out/notes.txt'), 'utf8')).toBe('hello');
    });

    test('commit waits for the writer that is late, when the other waits no more', async () => {
      const { uri } = await server().newBucket();
      const save = (directory: string, writer: string, ...more: string[]) =>
        said('save', directory, uri, '--version', '7', '--attempt', 'job-1', '--writer', writer, ...more);
      expect(await save(source, '0/2', '--timeout', '1s')).toMatchObject({
        ...{ code: 3, error: { code: 'Incomplete' } },
      });
      expect(await said('commit', uri, '--version', '7')).toMatchObject({ code: 3 });
      expect(await said('latest', uri)).toMatchObject({ code: 6 });
      const other = await writeFiles(place, 'other', { 'late.bin': 'late' });
      const [committed, late] = await Promise.all([
        said('commit', uri, '--version', '7', '--timeout', '1m'),
        save(other, '1/2', '--no-wait'),
      ]);
      expect(late).toMatchObject({ code: 0 });
      expect(committed).toMatchObject({ code: 0, version: 7, fileCount: 5, isLatest: true });
    });

    test('recover tells what became of a commit, and a run that is not there is said to be not found', async () => {
      const { uri } = run;
      const shown = await said('show', uri, '--version', '1');
      const epoch = shown.id.epoch as number;
      const record = (await viewOfRun(cloud, run)).read('run.json') ?? new Uint8Array();
      const { runId } = JSON.parse(Buffer.from(record).toString());
      const recover = (...id: [number, number]) => said('recover', uri, tokenOf(runId, ...id));
      expect(await recover(epoch, 1)).toMatchObject({ code: 0, outcome: 'committed', version: 1 });
      expect(await recover(epoch + 1, 9)).toMatchObject({ code: 75, outcome: 'pending' });
      expect(await recover(epoch, 9)).toMatchObject({ outcome: 'not-committed' });
      const empty = await server().newBucket();
      expect(await said('list', empty.uri)).toMatchObject({ code: 6, error: { code: 'NotFound' } });
      expect(await said('restore', empty.uri, place.path('none'))).toMatchObject({ code: 6 });
    });
  });
}
