/** axe-core on every page, light and dark, and the pages with the keyboard alone. */

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { makeHistory, newPlace } from './made-run.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** `rule: element` for each violation. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

describeInBrowser('for everyone', (browser) => {
  test.each(['light', 'dark'] as const)('axe finds no violation on any page (%s)', async (scheme) => {
    const place = newPlace();
    const uri = place.uri('run');
    await makeHistory(uri);
    const { url } = await serve(browser(), [place.uri('')]);
    const { page } = await openPage(browser(), url, { scheme });
    await total(page, '1 run');
    expect(await violations(page)).toEqual([]);
    await page.getByRole('link', { name: 'run', exact: true }).click();
    await total(page, '11 versions');
    await page.getByText('The attempts as a table').click();
    expect(await violations(page)).toEqual([]);
    await page.locator('.spacer a').first().click();
    await page.getByRole('button', { name: 'Read the headers' }).click();
    await page.getByLabel('Compare with').selectOption({ index: 2 });
    await page.getByText(/changed, .* added/).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByLabel('Seconds that a save blocks training').fill('0.05');
    await page.getByText(/^With an interval of/).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test('the picture is read and followed with the keyboard', async () => {
    const uri = newPlace().uri('run');
    await makeHistory(uri);
    const { url } = await serve(browser(), [uri]);
    const { page } = await openPage(browser(), url);
    await total(page, '11 versions');
    await page.locator('#timeline svg').first().focus();
    await page.keyboard.press('End');
    await page.getByText(/^Version 900, lineage 2, epoch 3/).waitFor();
    await page.keyboard.press('ArrowLeft');
    await page.getByText(/^Version 800, .* verified/).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Version 800' }).waitFor();
    expect(new URL(page.url()).hash).toContain('version=800');
  });
});
