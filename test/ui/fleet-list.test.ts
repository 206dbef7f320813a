/** The page of all runs and that of the agent, with answers made by hand. */

import type { AgentView } from '@holdfast/ui/internal/api';
import { runSummary } from '@holdfast/ui/internal/rows.testing';
import { expect, test } from 'vitest';
import { describeInBrowser, openPage, type RunningBrowser, serve, total } from './browser.ts';
import { expectInert, hostileNames, LONG, SCRIPT } from './hostile-text.ts';
import { AGENT_STATUS } from './made-agent.ts';

const MIB = 1 << 20;
const HOUR_MS = 3_600_000;

/** The page of runs that the server answers with these. */
async function openFleet(browser: RunningBrowser, runs: readonly unknown[], width = 1280) {
  const { url } = await serve(browser, ['memory://a', 'memory://b']);
  const opened = await openPage(browser, 'about:blank', { width });
  const answer = { version: 1, doneAtMs: Date.now(), isLooking: false, problem: null, runs };
  await opened.page.route('**/api/runs*', (route) => route.fulfill({ json: answer }));
  await opened.page.route('**/api/sparks*', (route) =>
    route.fulfill({ json: runs.map((run) => ({ uri: (run as { uri: string }).uri, commitsMs: [1000] })) }),
  );
  await opened.page.goto(url);
  await total(opened.page, `${runs.length} runs?`);
  return opened;
}

/** A run as of now, committed so long ago. */
function runOfNow(name: string, agoMs: number, more: Parameters<typeof runSummary>[2] = {}) {
  const nowMs = Date.now();
  const { latest, ...run } = runSummary(name, 0);
  const committed = latest && { ...latest, committedAtMs: nowMs - agoMs, ageMs: agoMs };
  return { ...run, latest: committed, checkedAtMs: nowMs, asOfMs: nowMs, storeTimeMs: nowMs, ...more };
}

describeInBrowser('all runs', (browser) => {
  test('each state and each order can be chosen, and a run that does not answer says since when', async () => {
    const unread = { asOfMs: null, storeTimeMs: null, latest: null, storedBytes: null } as const;
    const gone = { state: 'unreachable', problem: { code: 'Unavailable', message: 'no answer' } } as const;
    const fiveMinutesAgo = Date.now() - 5 * 60_000;
    const { page } = await openFleet(browser(), [
      runOfNow('calm', HOUR_MS, { recentFenceCount: 1 }),
      runOfNow('fenced', 2 * HOUR_MS, { recentFenceCount: 9 }),
      runOfNow('begun', 0, { latest: null, state: 'empty' }),
      runOfNow('away', 3 * HOUR_MS, { ...gone, asOfMs: fiveMinutesAgo, storeTimeMs: fiveMinutesAgo }),
      runOfNow('never', 0, { ...unread, ...gone }),
    ]);
    const names = () => page.locator('.runs th[scope=row]').allTextContents();
    await page.getByLabel('Order').selectOption('most fences first');
    expect((await names()).slice(0, 2)).toEqual(['fenced', 'calm']);
    for (const [words, found] of [
      ['not reachable', ['away', 'never']],
      ['no commit yet', ['begun']],
      ['any', ['fenced', 'calm', 'away', 'begun', 'never']],
    ] as const) {
      await page.getByLabel('State').selectOption({ label: words });
      await total(page, `${found.length} runs?`);
      expect(await names(), words).toEqual(found);
    }
    const away = page.locator('tr', { hasText: 'away' });
    expect(await away.textContent()).toContain('Unavailable, facts of 5 min ago1, 3.0 h ago');
    expect(await page.locator('tr', { hasText: 'never' }).locator('td').nth(1).textContent()).toBe('unknown');
  });

  test('a store with another clock: the age is by its clock, and the page says how much they differ', async () => {
    const aheadMs = 2 * HOUR_MS;
    const run = runOfNow('ahead', HOUR_MS - aheadMs, { storeTimeMs: Date.now() + aheadMs });
    const { page } = await openFleet(browser(), [run, runOfNow('right', HOUR_MS)]);
    await page
      .getByText("ahead: The store is 2.0 h ahead of this machine. Ages of commits are by the store's clock.")
      .waitFor();
    for (const name of ['ahead', 'right'])
      expect(await page.locator('tr', { hasText: name }).locator('td').nth(1).textContent()).toBe(
        '1, 60 min ago',
      );
  });

  test('names and errors that others choose are text, at 360 pixels too', async () => {
    const runs = hostileNames().map((name, index) =>
      runOfNow(name, HOUR_MS, {
        uri: `s3://bucket/${index}/${name}`,
        attempt: name,
        state: 'damaged',
        problem: { code: 'Corrupt', message: name },
      }),
    );
    const { page, complaints } = await openFleet(browser(), runs, 360);
    await page
      .getByRole('img', { name: /^1 commit/ })
      .first()
      .waitFor();
    await page.getByText(SCRIPT).first().waitFor();
    await expectInert(page, complaints);
  });
});

describeInBrowser('the agent', (browser) => {
  test('says what it sends per second, its memory, its stage, and that it stops', async () => {
    const saveOf = (doneBytes: number, uptimeMs: number): AgentView => {
      const [writer] = AGENT_STATUS.writers;
      const [save] = writer?.saves ?? [];
      return {
        ...AGENT_STATUS,
        uptimeMs,
        writers: [{ ...writer, saves: [{ ...save, doneBytes }] }],
      } as AgentView;
    };
    // Each call waits until the test answers it.
    const waiting: ((view: AgentView) => void)[] = [];
    const askAgent = () => new Promise<AgentView>((resolve) => waiting.push(resolve));
    const answer = async (view: AgentView) => {
      await expect.poll(() => waiting.length, { timeout: 20_000 }).toBeGreaterThan(0);
      waiting.shift()?.(view);
    };
    const { url } = await serve(browser(), [], { askAgent });
    const { page } = await openPage(browser(), url);
    const fact = (name: string) =>
      page.locator('#agent dl.facts > div', { hasText: name }).locator('dd').textContent();
    await answer(saveOf(100 * MIB, 10_000));
    await page.getByRole('heading', { name: 'Agent' }).waitFor();
    expect(await fact('Sending')).toBe('not measured yet');
    expect(await fact('Memory for transfers')).toBe('64.0 MiB of 256 MiB');
    expect(await fact('Stage')).toBe('/dev/shm/holdfast-1000, tmpfs, 900 MiB free');
    expect(await fact('Limit of all saves')).toBe('50.0 MiB per second');
    await page.getByText('stopping: it takes no new saves').waitFor();
    await answer(saveOf(140 * MIB, 12_000));
    await page.getByText('20.0 MiB per second, since the last look').waitFor();
    await answer(saveOf(140 * MIB, 14_000));
    await page.getByText('0 B per second, since the last look').waitFor();
  });

  test('names and errors that trainers choose are text, at 360 pixels too', async () => {
    const writers = hostileNames().flatMap((name) =>
      AGENT_STATUS.writers.map((writer) => ({
        ...writer,
        uri: `s3://bucket/${name}`,
        attempt: name,
        saves: writer.saves.map((save) => ({
          ...save,
          saveId: `${name} ${save.saveId} ${writer.index}`,
          error: save.error && { ...save.error, message: name },
        })),
      })),
    );
    const newest = hostileNames().map((name) => ({ uri: `s3://bucket/${name}`, version: '7' }));
    const stage = { ...AGENT_STATUS.stage, directory: `/dev/shm/${LONG}` };
    const askAgent = async () => ({ ...AGENT_STATUS, writers, newest, stage });
    const { url } = await serve(browser(), [], { askAgent });
    const { page, complaints } = await openPage(browser(), url, { width: 360 });
    await page.getByText(SCRIPT).first().waitFor();
    await expectInert(page, complaints);
  });
});
