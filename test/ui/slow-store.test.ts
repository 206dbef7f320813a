/** Stores that answer slowly or refuse, and clocks that differ: what the page says then. */

import { crc32c, createCheckpointManager } from '@holdfast/core';
import { CheckpointError } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { askNow, describeInBrowser, openPage, serve, total } from './browser.ts';
import { saveAll } from './made-run.ts';

const URI = 'memory://slow';
const TWO_HOURS_MS = 2 * 60 * 60_000;

/** A run of one version in a bucket, and how to open it. */
async function smallRun(change: (store: MemoryStore) => void = () => undefined, nowMs = Date.now) {
  const bucket = new MemoryBucket({ crc32c, clock: { nowMs } });
  await using run = createCheckpointManager({ store: new MemoryStore(bucket) });
  await saveAll(run, [{ version: 1 }]);
  return async () => {
    const store = new MemoryStore(bucket);
    change(store);
    const settings = { retryTimeoutMs: 500, recordTimeoutMs: 1000, stallTimeoutMs: 400 };
    return createCheckpointManager({ store, settings });
  };
}

describeInBrowser('a store that is slow or strange', (browser) => {
  test('answers no more: what was known stays, with its time and the error', async () => {
    let isSilent = false;
    const open = await smallRun((store) => {
      const list = store.list.bind(store);
      store.list = async function* (prefix, options) {
        if (isSilent)
          await new Promise((_, reject) =>
            options?.signal?.addEventListener('abort', () => reject(options.signal?.reason)),
          );
        yield* list(prefix, options);
      };
    });
    const { url } = await serve(browser(), [URI], { open });
    const { page } = await openPage(browser(), url);
    await total(page, '1 version');
    isSilent = true;
    await page.waitForTimeout(2100);
    await askNow(page);
    // Other parts of the page have alerts of their own, which may come first.
    await page
      .getByRole('alert')
      .filter({ hasText: /Shown: what was known .* ago/ })
      .waitFor();
    expect(await page.locator('.spacer a').allTextContents()).toEqual(['1']);
  });

  test('has another time: the page says how much the clocks differ', async () => {
    const open = await smallRun(undefined, () => Date.now() + TWO_HOURS_MS);
    const { url } = await serve(browser(), [URI], { open });
    const { page } = await openPage(browser(), url);
    const notice = "The store is 2.0 h ahead of this machine. Ages of commits are by the store's clock";
    await page.getByText(notice).waitFor();
    expect(await page.locator('.overview').textContent()).toMatch(/1, (just now|[\d.]+ s ago)/);
    await page.locator('.spacer a').first().click();
    await page.getByRole('heading', { name: 'Version 1' }).waitFor();
    await page.getByText(notice).waitFor();
    expect(await page.locator('.overview').textContent()).toMatch(/UTC, (just now|[\d.]+ s ago)/);
  });

  test('refuses to be written: a change ends with its error, and is not called done', async () => {
    const open = await smallRun((store) => {
      store.create = async () => {
        throw new CheckpointError('Denied', 'these credentials only read');
      };
    });
    const session = { programVersion: '1.2.3', uris: [URI], mayChange: true };
    const { url } = await serve(browser(), [URI], { open, session });
    const { page } = await openPage(browser(), url);
    await page.locator('.spacer a').first().click();
    const pin = page.getByRole('form', { name: 'Pin' });
    await pin.getByLabel('Reason').fill('why');
    await pin.getByRole('button', { name: 'Plan' }).click();
    await pin.getByRole('button', { name: 'Carry out' }).click();
    await pin.getByRole('alert').getByText('these credentials only read').waitFor();
    expect(await pin.locator('.done').count()).toBe(0);
    expect(await page.getByText('pinned: why').count()).toBe(0);
  });
});
