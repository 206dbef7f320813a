/** The page of a run in a real browser, on runs that real saves have made. */

import { openCheckpointManager } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, makeHistory, newPlace, saveAll } from './made-run.ts';

describeInBrowser('the page of a run', (browser) => {
  test('shows the latest, the lineages as a picture, and every version with its state', async () => {
    const uri = newPlace().uri('run');
    await makeHistory(uri);
    const { url } = await serve(browser(), [uri]);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '11 versions');
    const overview = await page.locator('.overview').textContent();
    expect(overview).toMatch(/900, (just now|.*ago)/);
    expect(overview).toContain('11 (1 pinned, 4 retired, 2 left behind)');
    await page.locator('.picture svg .mark.rollback').first().waitFor({ state: 'attached' });
    expect(await page.locator('.picture path.line.left').count()).toBe(1);
    expect(await page.locator('.picture rect.band').count()).toBe(3);
    const rows = await page.locator('.spacer [role=row]').allTextContents();
    expect(rows).toHaveLength(11);
    expect(rows[0]).toContain('latest');
    expect(rows[0]).toMatch(/kept: newest 6; best 2 by loss/);
    expect(rows.find((row) => row.startsWith('300'))).toContain('pinned: paper');
    expect(rows.find((row) => row.startsWith('800'))).toContain('verified');
    expect(rows.find((row) => row.startsWith('700@1'))).toContain('left behind');
    expect(new URL(page.url()).hash).toBe('#/');
    expect(complaints).toEqual([]);
  });

  test('a fork names the run that it began with, marks the copy, and leads there', async () => {
    const place = newPlace();
    const [source, fork] = [place.uri('source'), place.uri('fork')];
    await asAttempt(source, 'job-1', (run) => saveAll(run, [{ version: 100 }, { version: 200 }]));
    await asAttempt(fork, 'fork', async (target) => {
      await using from = await openCheckpointManager(source);
      await target.admin.forkFrom(from, { version: 100 });
      await saveAll(target, [{ version: 300 }]);
    });
    const { url } = await serve(browser(), [place.uri('')]);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '2 runs');
    await page.getByRole('link', { name: 'fork', exact: true }).click();
    await total(page, '2 versions');
    const origin = page.locator('.legend .origin');
    await origin.getByText(`fork of version 100 (lineage 1) of ${source}`).waitFor();
    expect(await page.locator('.picture g.mark.origin').count()).toBe(1);
    await origin.getByRole('link', { name: 'copied' }).click();
    await page.locator('.spacer a', { hasText: /^200$/ }).waitFor();
    expect(await page.locator('.legend .origin').count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test('an idle page asks for the run once in ten seconds, and for nothing else', async () => {
    const uri = newPlace().uri('run');
    await asAttempt(uri, 'job-1', (run) => saveAll(run, [{ version: 1 }]));
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await page.clock.install();
    await page.reload();
    await page.locator('.picture circle.dot').first().waitFor();
    await page.waitForLoadState('networkidle');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.clock.runFor(60_000);
    await expect.poll(() => asked).toHaveLength(6);
    expect(new Set(asked)).toEqual(new Set(['/api/run']));
  });

  test('a commit appears on the open page, and the version becomes the latest', async () => {
    const uri = newPlace().uri('run');
    await asAttempt(uri, 'job-1', (run) => saveAll(run, [{ version: 1 }]));
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await total(page, '1 version');
    await asAttempt(uri, 'job-1', (run) => saveAll(run, [{ version: 2 }]));
    await total(page, '2 versions');
    expect(await page.locator('.spacer [role=row]').first().textContent()).toMatch(/^2(just|\d)/);
  });
});
