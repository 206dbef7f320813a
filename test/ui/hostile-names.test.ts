/** Names and texts that any writer of a run may choose, on every page that shows them. */

import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { asAttempt, newPlace } from './made-run.ts';

const SCRIPT = '<script>document.title="owned"</script><img src=x onerror=document.title="owned">';
const RIGHT_TO_LEFT = '\u202eevil\u202c \u05d0\u05d1\u05d2';
const LONG = 'n'.repeat(4096);
const QUOTES = `"' onmouseover="document.title='owned'" x='`;
const NAMES = [SCRIPT, RIGHT_TO_LEFT, QUOTES];

/** Every field that a writer controls. */
async function makeHostile(uri: string): Promise<void> {
  await asAttempt(uri, 'job<script>document.title="owned"</script>', async (run) => {
    await run.save({
      version: 1,
      buffers: {
        ...Object.fromEntries(
          NAMES.map((name, index) => [`${name.replaceAll('/', '|')}${index}`, Uint8Array.of(index)]),
        ),
        'model.safetensors': tensors(NAMES),
      },
      metrics: { [SCRIPT.slice(0, 100)]: 1, loss: 2 },
      metadata: { [QUOTES]: SCRIPT, long: LONG, rtl: RIGHT_TO_LEFT },
    });
    await run.save({ version: 2, buffers: { a: Uint8Array.of(1) } });
    await run.admin.pin(1, SCRIPT);
    await run.admin.pin(1, 'p'.repeat(200));
    await run.admin.rollback({ to: 1, reason: SCRIPT });
  });
}

function tensors(names: readonly string[]): Uint8Array {
  const header = Object.fromEntries(
    names.map((name, index) => [name, { dtype: 'U8', shape: [1], data_offsets: [index, index + 1] }]),
  );
  const text = Buffer.from(JSON.stringify(header));
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([head, text, Buffer.alloc(names.length)]);
}

/** No script ran, no element was made of a text, and nothing is wider than the window. */
async function expectInert(page: Page, complaints: readonly string[]): Promise<void> {
  expect(await page.title()).toBe('Holdfast');
  expect(await page.locator('#app script, #app img').count()).toBe(0);
  expect(await page.locator('[onmouseover]').count()).toBe(0);
  const [content, window] = (await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as [
    number,
    number,
  ];
  expect(content).toBeLessThanOrEqual(window);
  expect(complaints).toEqual([]);
}

describeInBrowser('names that writers choose', (browser) => {
  test('are text on every page, at 360 pixels too', async () => {
    const uri = newPlace().uri('run%3Cscript%3E');
    await makeHostile(uri);
    const { url } = await serve(browser(), [uri]);
    const { page, complaints } = await openPage(browser(), url, { width: 360 });
    await total(page, '2 versions');
    await page.getByText('The attempts as a table').click();
    await page.getByText('job<script>').first().waitFor();
    await expectInert(page, complaints);

    await page.locator('.spacer a', { hasText: /^1$/ }).click();
    await page.getByRole('button', { name: 'Read the headers' }).click();
    await page.getByRole('region', { name: /^Table: Tensors/ }).waitFor();
    await page.getByText(SCRIPT).first().waitFor();
    await page.getByLabel('Compare with').selectOption({ index: 1 });
    await page.getByText(/changed, .* added/).waitFor();
    await expectInert(page, complaints);

    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByRole('heading', { name: 'Interruptions' }).waitFor();
    await expectInert(page, complaints);
  });
});
