/** The page of all runs in a real browser. */

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, newPlace, saveAll } from './made-run.ts';

describeInBrowser('the page of all runs', (browser) => {
  test('every run below a place, a damaged one among them, with search, filter and order', async () => {
    const place = newPlace();
    for (const [name, count] of [
      ['team/small', 1],
      ['team/large', 3],
      ['other', 2],
    ] as const) {
      const saves = Array.from({ length: count }, (_, index) => ({
        version: index,
        sizeBytes: 1000 * count,
      }));
      await asAttempt(place.uri(name), `job-of-${name.replace('/', '-')}`, (run) => saveAll(run, saves));
    }
    await asAttempt(place.uri('damaged'), 'job', (run) => saveAll(run, [{ version: 1 }]));
    rmSync(join(place.directory, 'damaged', 'catalog'), { recursive: true });
    writeFileSync(join(place.directory, 'a-file-of-another-tool'), '');
    const { url } = await serve(browser(), [place.uri('')]);
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '4 runs');
    const names = () => page.locator('.runs th[scope=row]').allTextContents();
    expect((await names()).sort()).toEqual(['damaged', 'other', 'team/large', 'team/small']);
    expect(await page.locator('tr', { hasText: 'damaged' }).first().textContent()).toContain(
      'StoreRegressed',
    );
    await page.getByRole('img', { name: /^3 commits in the last/ }).waitFor();

    await page.getByLabel('Find').fill('LARGE');
    expect(await names()).toEqual(['team/large']);
    await page.getByLabel('Find').fill('job-of-other');
    expect(await names()).toEqual(['other']);
    await page.getByLabel('Find').fill('');
    await page.getByLabel('State').selectOption('damaged');
    expect(await names()).toEqual(['damaged']);
    await page.getByLabel('State').selectOption('');
    await page.getByLabel('Order').selectOption('stored');
    expect((await names())[0]).toBe('team/large');

    await page.getByRole('link', { name: 'team/large' }).click();
    await total(page, '3 versions');
    expect(complaints).toEqual([]);
  });

  test('no run: the page says so', async () => {
    const { url } = await serve(browser(), [newPlace().uri('')]);
    const { page } = await openPage(browser(), url);
    await page.getByText('There is no run at or below these places.').waitFor();
  });
});
