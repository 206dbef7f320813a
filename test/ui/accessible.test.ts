/** axe-core on every page, light and dark, and the pages with the keyboard alone. */

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { reportOf } from '@holdfast/ui';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, serve, total } from './browser.ts';
import { AGENT_STATUS } from './made-agent.ts';
import { makeHistory, newPlace, type Place } from './made-run.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Links, fields, buttons and pictures that are visible. */
const REACHABLE = 'a[href], button, input, select, summary, [tabindex]:not([tabindex="-1"])';

/** `rule: element` for each violation. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/**
 * Presses Tab until the focus has left the page. Returns what was not reached, and what did not
 * show that it has the focus.
 */
async function missedByTab(page: Page): Promise<string[]> {
  await page.evaluate(`
    document.activeElement?.blur();
    getSelection()?.removeAllRanges();
    window.unreached = new Set(
      [...document.querySelectorAll('${REACHABLE}')].filter((each) => each.checkVisibility()));
    window.unseen = [];`);
  const size = (await page.evaluate('unreached.size')) as number;
  for (let presses = 0; presses < size + 3; presses++) {
    await page.keyboard.press('Tab');
    const isDone = await page.evaluate(`{
      const at = document.activeElement;
      unreached.delete(at);
      const style = getComputedStyle(at);
      if (at !== document.body && style.outlineStyle === 'none') unseen.push(at);
      unreached.size === 0 }`);
    if (isDone) break;
  }
  return (await page.evaluate(
    '[...unreached, ...unseen].map((each) => each.outerHTML.slice(0, 150))',
  )) as string[];
}

/** Writes the report of a run, and returns the URL of the file. */
async function reportIn(place: Place, uri: string, page: string): Promise<string> {
  await using run = await openCheckpointManager(uri);
  const { signal } = new AbortController();
  const html = await reportOf(run, { uri, page, programVersion: '1.2.3', clock: systemClock, signal });
  const file = join(place.directory, 'report.html');
  writeFileSync(file, html);
  return pathToFileURL(file).href;
}

/** What axe or the keyboard finds on this page. */
async function faults(page: Page): Promise<string[]> {
  return [...(await violations(page)), ...(await missedByTab(page))];
}

describeInBrowser('for everyone', (browser) => {
  test.each([
    ['light', 1920],
    ['dark', 360],
  ] as const)(
    'axe finds no violation on any page, and Tab reaches everything (%s, %i px)',
    async (scheme, width) => {
      const place = newPlace();
      const uri = place.uri('run');
      await makeHistory(uri);
      const html = await reportIn(place, uri, browser().html);
      const session = { programVersion: '1.2.3', uris: [place.uri('')], mayChange: true };
      const answers = [AGENT_STATUS, null];
      const askAgent = async () => {
        const answer = answers.shift();
        if (answer) return answer;
        throw new CheckpointError('Unavailable', 'no agent answers on this socket');
      };
      const { url } = await serve(browser(), [place.uri('')], { session, askAgent });
      const { page } = await openPage(browser(), url, { scheme, width });
      await total(page, '1 run');
      expect(await faults(page)).toEqual([]);
      await page.getByRole('link', { name: 'run', exact: true }).click();
      await total(page, '11 versions');
      await page.getByText('The attempts as a table').click();
      const rules = page.getByRole('form', { name: 'Apply the rules' });
      await rules.getByLabel('Reason').fill('why');
      await rules.getByRole('button').click();
      await page.getByRole('button', { name: 'Carry out' }).waitFor();
      expect(await faults(page)).toEqual([]);
      await page.locator('.spacer a', { hasText: /^900$/ }).click();
      await page.getByRole('button', { name: 'Read the headers' }).click();
      await page.getByLabel('Compare with').selectOption({ index: 2 });
      await page.getByText(/changed, .* added/).waitFor();
      expect(await faults(page)).toEqual([]);
      await page.goBack();
      await page.locator('.spacer a', { hasText: /^800$/ }).click();
      await page.getByRole('heading', { name: 'Version 800' }).waitFor();
      for (const form of await page.getByRole('form').all()) {
        for (const field of await form.getByRole('textbox').all()) await field.fill('why');
        await form.getByRole('button', { name: 'Plan' }).click();
        await form.getByRole('button', { name: 'Carry out' }).waitFor();
      }
      expect(await faults(page)).toEqual([]);
      await page.getByRole('link', { name: 'Goodput' }).click();
      await page.getByLabel('Seconds that a save blocks training').fill('0.05');
      await page.getByText(/^With an interval of/).waitFor();
      expect(await faults(page)).toEqual([]);
      await page.getByRole('link', { name: 'Agent' }).click();
      await page.getByText('limit of', { exact: false }).first().waitFor();
      expect(await faults(page)).toEqual([]);
      await page.getByRole('alert').waitFor();
      expect(await faults(page)).toEqual([]);
      await page.goto(html);
      await total(page, '11 versions');
      expect(await faults(page)).toEqual([]);
    },
  );

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
