/** `holdfast report`: the page of a run as one file. */

import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { systemClock } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { reportOf } from '@holdfast/ui';
import { expect, test } from 'vitest';
import { holdfast, newPlace as newCommandPlace } from '../e2e/holdfast-process.ts';
import { describeInBrowser, openPage, total } from './browser.ts';
import { asAttempt, makeHistory, newPlace } from './made-run.ts';

const SCRIPT = '</script><script>document.title="owned"</script><!--<script>';

describeInBrowser('a report', (browser) => {
  test('shows the run without a server, and texts of writers do not end its data', async () => {
    const place = newPlace();
    const uri = place.uri('run');
    await makeHistory(uri);
    await asAttempt(uri, SCRIPT, (run) =>
      run
        .save({ version: 1000, buffers: { a: Uint8Array.of(1) }, metrics: { [SCRIPT]: 1, loss: 1 } })
        .then(() => undefined),
    );
    await using run = await openCheckpointManager(uri);
    const html = await reportOf(run, {
      uri,
      page: browser().html,
      programVersion: '1.2.3',
      clock: systemClock,
      signal: new AbortController().signal,
    });
    const file = join(place.directory, 'report.html');
    writeFileSync(file, html);
    const { page, complaints } = await openPage(browser(), pathToFileURL(file).href);
    await total(page, '12 versions');
    await page.getByText(/^Report of /).waitFor();
    await page.getByLabel('Find').fill('300');
    await total(page, '1 version');
    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByText(/at most .* at 3 interruptions/).waitFor();
    expect(await page.title()).toBe('Holdfast');
    expect(complaints).toEqual([]);
  });
});

test('the command writes a new file, and refuses one that exists, a run that does not, and no --out', async () => {
  const place = await newCommandPlace();
  await asAttempt(place.uri, 'job', (run) =>
    run.save({ version: 1, buffers: { a: Uint8Array.of(1) } }).then(() => undefined),
  );
  const out = place.path('report.html');
  const written = await holdfast(['report', place.uri, '--out', out, '--json']);
  expect(written).toMatchObject({ code: 0 });
  const html = readFileSync(out, 'utf8');
  expect(JSON.parse(written.stdout)).toMatchObject({
    uri: place.uri,
    path: out,
    sizeBytes: Buffer.byteLength(html),
  });
  expect(html).toContain('"versionCount":1');
  const again = await holdfast(['report', place.uri, '--out', out]);
  expect(again.code).toBe(7);
  expect(again.stderr).toContain('report.html exists');
  expect((await holdfast(['report', `${place.uri}-other`, '--out', place.path('b.html')])).code).toBe(6);
  expect((await holdfast(['report', place.uri])).code).toBe(2);
});

test('the command writes nothing into a run, also not through a link', async () => {
  const place = await newCommandPlace();
  await asAttempt(place.uri, 'job', (run) =>
    run.save({ version: 1, buffers: { a: Uint8Array.of(1) } }).then(() => undefined),
  );
  symlinkSync(place.runDirectory, place.path('link'));
  for (const out of ['run/report.html', 'link/catalog/00000000000000000099.json']) {
    const refused = await holdfast(['report', place.uri, '--out', place.path(out)]);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('nothing else may be written'),
    ]);
    expect(existsSync(place.path(out))).toBe(false);
  }
});
