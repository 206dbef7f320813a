/** Texts that a writer of a run may choose, to attack a page that shows them. */

import type { Page } from 'playwright-core';
import { expect } from 'vitest';

export const SCRIPT = '<script>document.title="owned"</script><img src=x onerror=document.title="owned">';
export const RIGHT_TO_LEFT = '\u202eevil\u202c \u05d0\u05d1\u05d2';
export const LONG = 'n'.repeat(4096);
export const QUOTES = `"' onmouseover="document.title='owned'" x='`;

/** One of each kind. */
export function hostileNames(): readonly string[] {
  return [SCRIPT, RIGHT_TO_LEFT, QUOTES, LONG];
}

/** No script ran, no element was made of a text, and nothing is wider than the window. */
export async function expectInert(page: Page, complaints: readonly string[]): Promise<void> {
  expect(await page.title()).toBe('Holdfast');
  expect(await page.locator('#app script, #app img, [onmouseover]').count()).toBe(0);
  const [content, window] = (await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as [
    number,
    number,
  ];
  expect(content).toBeLessThanOrEqual(window);
  expect(complaints).toEqual([]);
}
