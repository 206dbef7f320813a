/** Names and texts that any writer of a run may choose, on every page that shows them. */

import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { expectInert, LONG, QUOTES, RIGHT_TO_LEFT, SCRIPT } from './hostile-text.ts';
import { asAttempt, newPlace } from './made-run.ts';

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
        'model.safetensors': tensors([...NAMES, LONG]),
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
    const name = page.locator('#tensors th .text', { hasText: /^n{200}…$/ });
    expect(await name.getAttribute('title')).toBe(LONG);
    await page.getByLabel('Compare with').selectOption({ index: 1 });
    await page.getByText(/changed, .* added/).waitFor();
    await expectInert(page, complaints);

    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByRole('heading', { name: 'Interruptions' }).waitFor();
    await expectInert(page, complaints);
  });
});
