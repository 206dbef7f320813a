/** A run of 10,000 versions: the first page, the list while it is scrolled, and what is sent. */

import { crc32c, createCheckpointManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { fillRun } from '../bench/fill-run.ts';
import { describeInBrowser, openPage, serve, total } from './browser.ts';

const COUNT = 10_000;
const STYLE_BYTES_MAX = 300 * 1024;

describeInBrowser('a run of 10,000 versions', (browser) => {
  test('any row is found, and only visible rows exist', async () => {
    const bucket = new MemoryBucket({ crc32c });
    const startMs = Date.now() - COUNT * 60_000;
    const commitMs = (version: number) => startMs + version * 60_000;
    await fillRun(new MemoryStore(bucket), COUNT, { isCatalogOnly: true, commitMs });
    const uri = 'memory://many';
    const open = async () => createCheckpointManager({ store: new MemoryStore(bucket) });
    const { url } = await serve(browser(), [uri], { open });
    const { page, complaints } = await openPage(browser(), url);
    await total(page, '10,000 versions');
    const rows = page.locator('.spacer [role=row]');
    await page.locator('.spacer a', { hasText: /^10000$/ }).waitFor();
    expect(await rows.count()).toBeLessThan(40);
    expect(await page.locator('.picture circle.dot').count()).toBeLessThanOrEqual(1200);

    await page.locator('.scroller').evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
    await page.locator('.spacer a', { hasText: /^5000$/ }).waitFor();
    await page.locator('.scroller').evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.locator('.spacer a', { hasText: /^1$/ }).waitFor();
    expect(await rows.count()).toBeLessThan(40);
    expect(await page.getByRole('table').first().getAttribute('aria-rowcount')).toBe('10001');

    await page.getByLabel('Find').fill('1234');
    await total(page, '1 version');
    await page.getByLabel('Find').fill('999');
    await total(page, '19 versions');
    expect(complaints).toEqual([]);
  });

  test('script and style are small when compressed', async () => {
    const { port } = await serve(browser(), ['memory://none']);
    const answer = await fetch(`http://127.0.0.1:${port}/`);
    expect(answer.headers.get('content-encoding')).toBe('gzip');
    const { gzipSync } = await import('node:zlib');
    expect(gzipSync(await answer.text()).length).toBeLessThan(STYLE_BYTES_MAX);
  });
});
