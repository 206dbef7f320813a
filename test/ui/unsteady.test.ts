/** Writers that die, stores that go away, and several tabs. */

import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpointManager } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { askNow, describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, newPlace, saveAll } from './made-run.ts';

describeInBrowser('what changes under an open page', (browser) => {
  test('a writer that dies in the middle of a save is shown as missing, with the bytes of the others', async () => {
    const uri = newPlace().uri('run');
    const { url } = await (async () => {
      for (const index of [0, 2]) {
        // Writer 1 has died before it delivered.
        await using writer = await openCheckpointManager(uri, {
          attempt: 'job',
          writer: { index, count: 3 },
        });
        await writer.save({
          version: 7,
          buffers: { [`shard-${index}`]: new Uint8Array(1000 * (index + 1)) },
          noWait: true,
        });
      }
      return serve(browser(), [uri]);
    })();
    const { page } = await openPage(browser(), url);
    await page.getByText('Version 7: 2 of 3 writers delivered, 3.9 KiB arrived').waitFor();
    expect(await page.locator('.writers li').allTextContents()).toEqual([
      expect.stringMatching(/^writer 10 Bmissing: writer 1 never joined$/),
      'writer 01000 Bdelivered'.replace('1000 B', '1.0 KiB'),
      'writer 22.9 KiBdelivered',
    ]);
    await page.getByText('writers missing').waitFor();
  });

  test('a store that goes away: the page shows what it knew and since when, and goes on when it is back', async () => {
    const place = newPlace();
    const uri = place.uri('run');
    await asAttempt(uri, 'job', (run) => saveAll(run, [{ version: 1 }]));
    const settings = { retryTimeoutMs: 500, recordTimeoutMs: 1000 };
    const open = (each: string) => openCheckpointManager(each, { settings });
    const { url } = await serve(browser(), [uri], { open });
    const { page } = await openPage(browser(), url);
    await total(page, '1 version');
    await rename(join(place.directory, 'run', 'catalog'), join(place.directory, 'gone'));
    await page.waitForTimeout(2100);
    await askNow(page);
    await page.getByRole('alert').first().waitFor();
    expect(await page.getByRole('alert').first().textContent()).toMatch(/Shown: what was known .* ago/);
    await total(page, '1 version');
    await rename(join(place.directory, 'gone'), join(place.directory, 'run', 'catalog'));
    await page.waitForTimeout(2100);
    await askNow(page);
    await page.getByRole('alert').first().waitFor({ state: 'detached' });
  });

  test('two tabs share the reads of the store, and a tab without the token shows nothing', async () => {
    const uri = newPlace().uri('run');
    await asAttempt(uri, 'job', (run) => saveAll(run, [{ version: 1 }]));
    let opened = 0;
    const open = (each: string) => {
      opened += 1;
      return openCheckpointManager(each);
    };
    const { url, port } = await serve(browser(), [uri], { open });
    const { page, context } = await openPage(browser(), url);
    await total(page, '1 version');
    const second = await context.newPage();
    await second.goto(url);
    await total(second, '1 version');
    expect(opened).toBe(1);
    const third = await context.newPage();
    await third.goto(`http://127.0.0.1:${port}/`);
    await third.getByText('This address has no token').waitFor();
    // Reloaded, a tab keeps its token, which is not in its address.
    await page.reload();
    await total(page, '1 version');
    expect(page.url()).not.toContain('token');
  });
});
