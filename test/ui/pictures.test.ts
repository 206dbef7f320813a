/** The page of a run as a report with data made by hand: what pictures, cards and facts say. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { RetentionPlan } from '@holdfast/core/contract';
import type { EventsView, ReportData, RunView, VersionRow } from '@holdfast/ui/internal/api';
import { goodputOf } from '@holdfast/ui/internal/goodput';
import { knownRun } from '@holdfast/ui/internal/known-run';
import { byCommit } from '@holdfast/ui/internal/picture';
import { pageWithData } from '@holdfast/ui/internal/report';
import { commit, decision, planFor, type Verdict } from '@holdfast/ui/internal/rows.testing';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { describeInBrowser, openPage, type RunningBrowser, total } from './browser.ts';

const MINUTE_MS = 60_000;
const URI = 's3://bucket/run';
/** When the report was made. */
const NOW_MINUTES = 120;

/** Newest first. Version 3 shares 3000 of its 4000 bytes. */
const ROWS: readonly VersionRow[] = [
  commit(6, 110, { metrics: { loss: 2, auc: 0.8 }, isLatest: true }),
  commit(5, 90, { metrics: { loss: 1, auc: 0.7 } }),
  commit(4, 70, { metrics: { loss: 3, auc: 0.9 }, isVerified: true }),
  commit(3, 50, { metrics: { loss: 4 }, sizeBytes: 4000 }),
  commit(2, 30, { metrics: { loss: 5 }, state: 'retiring', graceUntilMs: 180 * MINUTE_MS }),
  commit(1, 10, { metrics: { loss: 6 }, state: 'retiring', graceUntilMs: 60 * MINUTE_MS }),
];
const KEEP = { verdict: 'keep', reasons: ['newest 2'] } as const;
const VERDICTS: readonly Verdict[] = [
  KEEP,
  KEEP,
  KEEP,
  { verdict: 'retire', reasons: ['no rule keeps it'] },
  { verdict: 'wait', reasons: ['retired'] },
  { verdict: 'remove', reasons: ['its grace is over'] },
];
const PLAN: Partial<RetentionPlan> = {
  policy: {
    keepLast: 2,
    keepBest: [
      { metric: 'loss', mode: 'min', count: 1 },
      { metric: 'auc', mode: 'max', count: 1 },
    ],
    graceMs: 3_600_000,
  },
  rules: 'newest 2, best 1 by loss (lowest), best 1 by auc (highest); grace 1 h',
  droppedBytes: 3000,
};
const EVENTS: EventsView = {
  events: [
    decision('verify', 100, { checkpoints: ['4'] }),
    decision('quarantine', 95, { reason: 'a bit flipped' }),
    decision('rollback', 80, { lineage: 2, epoch: 3 }),
    decision('takeover', 60, { epoch: 2, attempt: 'job-2' }),
    decision('abandon', 55),
    decision('takeover', 5),
  ],
  origin: null,
  older: 'none',
};

interface Given {
  readonly rows?: readonly VersionRow[];
  readonly plan?: Partial<RetentionPlan>;
  readonly events?: Partial<EventsView>;
  readonly run?: Partial<RunView>;
}

function reportData({ rows = ROWS, plan = {}, events = {}, run = {} }: Given): ReportData {
  const known = knownRun(URI, 9, rows, planFor(rows, VERDICTS, { ...PLAN, ...plan }));
  const allEvents = { ...EVENTS, ...events };
  const madeAtMs = NOW_MINUTES * MINUTE_MS;
  const facts = {
    worldSize: 2,
    attempt: 'job-2',
    referencedBytes: 3000,
    clockDifferenceMs: 0,
    begun: [],
    readAtMs: madeAtMs,
    problem: null,
  };
  return {
    session: { programVersion: '1.2.3', uris: [URI], mayChange: false, hasAgent: false, home: 'run' },
    madeAtMs,
    run: { ...known.view, ...facts, ...run },
    events: allEvents,
    rows: known.rows,
    goodput: goodputOf(byCommit(rows), allEvents, [2000]),
  };
}

async function openReport(browser: RunningBrowser, given: Given = {}, width = 1280): Promise<Page> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-report-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, 'report.html');
  writeFileSync(file, pageWithData(browser.html, reportData(given)));
  const { page } = await openPage(browser, pathToFileURL(file).href, { width });
  await total(page, `${given.rows?.length ?? ROWS.length} versions?`);
  await page.locator('.picture svg').first().waitFor();
  return page;
}

/** The value beside this name in a list of facts. */
function fact(page: Page, name: string) {
  const facts = page.locator('dl.facts > div');
  return facts.filter({ has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) }).locator('dd');
}

/** The text under a picture for each of its points, from the first on. */
async function readouts(page: Page, card: string, points: number): Promise<(string | null)[]> {
  const picture = page.locator(`${card} .picture`);
  await picture.locator('svg').focus();
  const texts: (string | null)[] = [];
  for (let at = 0; at < points; at++) {
    await page.keyboard.press(at === 0 ? 'Home' : 'ArrowRight');
    texts.push(await picture.locator('.readout').textContent());
  }
  return texts;
}

/** By how many pixels the content is wider than the window. */
function overflow(page: Page): Promise<number> {
  return page.evaluate('document.documentElement.scrollWidth - innerWidth');
}

describeInBrowser('the page of a run, with data made by hand', (browser) => {
  test('metrics: the best is a diamond, and what is not kept is hollow', async () => {
    const page = await openReport(browser());
    expect(await page.locator('#metrics circle.dot, #metrics path.dot').count()).toBe(6);
    expect(await page.locator('#metrics path.dot.best').count()).toBe(1);
    expect(await page.locator('#metrics .dot.hollow').count()).toBe(3);
    expect(await readouts(page, '#metrics', 6)).toEqual([
      'Version 1 · loss 6 · 1970-01-01 00:10:00 UTC · retired',
      'Version 2 · loss 5 · 1970-01-01 00:30:00 UTC · retired',
      'Version 3 · loss 4 · 1970-01-01 00:50:00 UTC',
      'Version 4 · loss 3 · 1970-01-01 01:10:00 UTC · verified',
      'Version 5 · loss 1 · 1970-01-01 01:30:00 UTC · best',
      'Version 6 · loss 2 · 1970-01-01 01:50:00 UTC · latest',
    ]);
    await page.locator('#metrics select').selectOption('auc');
    expect(await readouts(page, '#metrics', 3)).toEqual([
      'Version 4 · auc 0.9 · 1970-01-01 01:10:00 UTC · best · verified',
      'Version 5 · auc 0.7 · 1970-01-01 01:30:00 UTC',
      'Version 6 · auc 0.8 · 1970-01-01 01:50:00 UTC · latest',
    ]);
  });

  test('sizes: the filled part of a bar was sent, and the pale part is shared', async () => {
    const page = await openReport(browser());
    const heights = (part: string) =>
      page
        .locator(`#sizes rect.bar.${part}`)
        .evaluateAll((bars) => bars.map((bar) => Number(bar.getAttribute('height'))));
    const [stored, shared] = [await heights('stored'), await heights('shared')];
    expect([stored.length, shared.length]).toEqual([6, 6]);
    const [third = 0] = stored.slice(2);
    expect(shared[2]).toBeCloseTo(3 * third, 3);
    for (const at of [0, 1, 3, 4, 5]) expect([shared[at], stored[at]]).toEqual([0, expect.closeTo(third, 3)]);
    expect((await readouts(page, '#sizes', 3))[2]).toBe(
      'Version 3 · 1970-01-01 00:50:00 UTC · 3.9 KiB: 1.0 KiB stored, 2.9 KiB shared',
    );
  });

  test('the timeline marks each kind of decision once, but none before the first commit', async () => {
    const page = await openReport(browser());
    const marks = page.locator('#timeline .picture > svg g.mark');
    for (const kind of ['takeover', 'rollback', 'quarantine', 'abandon'])
      expect(await marks.and(page.locator(`.${kind}`)).count(), kind).toBe(1);
    expect(await marks.and(page.locator('.quarantine')).locator('title').textContent()).toBe(
      'quarantine job-1 a bit flipped',
    );
    expect(await page.locator('#timeline .legend li').allTextContents()).toEqual([
      'a new attempt takes over and fences the former',
      'rollback',
      'quarantine',
      'a save is abandoned',
    ]);
    expect(await page.locator('#timeline .note').first().textContent()).not.toContain('decisions');
  });

  test('retention: the rules, what goes next, what that frees, and until when', async () => {
    const page = await openReport(browser());
    expect(await fact(page, 'Rules').textContent()).toBe(PLAN.rules);
    expect(await fact(page, 'Kept').textContent()).toBe('3 versions');
    expect(await fact(page, 'Going next').textContent()).toBe('1 to retire, 1 to remove, 1 in their grace');
    expect(await fact(page, 'Frees').textContent()).toBe('2.9 KiB of 5.9 KiB');
    const rows = page.locator('#retention tbody tr');
    const cells = await rows.evaluateAll((all) =>
      all.map((row) => [...row.children].map((cell) => cell.textContent)),
    );
    expect(cells).toEqual([
      ['3', '70 min ago', '1.0 KiB', 'retires next: no rule keeps it', ''],
      ['2', '1.5 h ago', '1.0 KiB', 'waits: retired', '1970-01-01 03:00:00 UTC'],
      ['1', '1.8 h ago', '1.0 KiB', 'removed next: its grace is over', '1970-01-01 01:00:00 UTC'],
    ]);
  });

  test('retention: no rules, and rules that drop more than half', async () => {
    const half = await openReport(browser(), { plan: { droppedBytes: 5000, needsForce: true } });
    expect(await fact(half, 'Frees').textContent()).toContain('a collection needs --force');
    const none = await openReport(browser(), { plan: { policy: null, rules: '' } });
    expect(await fact(none, 'Rules').textContent()).toBe('no rules: every version is kept');
  });

  test('overview: the latest, what is stored and shared, takeovers of the last day, when it was verified', async () => {
    const page = await openReport(browser());
    expect(await fact(page, 'Latest').textContent()).toBe('6, 10 min ago');
    expect(await fact(page, 'Stored').textContent()).toBe('5.9 KiB, and 2.9 KiB shared');
    expect(await fact(page, 'Verified').textContent()).toBe('4, 20 min ago');
    expect(await fact(page, 'Takeovers').textContent()).toBe('2 new attempts, 1 rollback in the last day');
    expect(await page.locator('.overview dt', { hasText: 'Clocks' }).count()).toBe(0);
  });

  test.each([
    [
      'unread',
      /Only the newest 3 decisions were read/,
      'before the newest 3 decisions, which were read',
      'not read',
    ],
    [
      'deleted',
      /The catalog no longer has the oldest decisions/,
      'when is no longer in the log',
      'not in the log',
    ],
  ] as const)('decisions that are %s are told as such', async (older, note, verified, taken) => {
    const events = EVENTS.events.slice(1, 4);
    const page = await openReport(browser(), { events: { events, older } });
    expect(await page.locator('#timeline .note').first().textContent()).toMatch(note);
    expect(await fact(page, 'Verified').textContent()).toBe(`4, ${verified}`);
    expect(await fact(page, 'Takeovers').textContent()).toBe(
      '1 new attempt, 1 rollback in the last 60 min, as far as the log was read',
    );
    await page.getByText('The attempts as a table').click();
    expect(await page.locator('.as-table tbody td').nth(0).textContent()).toBe(taken);
  });

  test('a store with another clock: ages are by its clock, and the page says how much they differ', async () => {
    const page = await openReport(browser(), { run: { clockDifferenceMs: -60 * MINUTE_MS } });
    expect(await fact(page, 'Clocks').textContent()).toBe(
      "The store is 60 min behind this machine. Ages of commits are by the store's clock",
    );
    expect(await fact(page, 'Latest').textContent()).toMatch(/^6, 50 min in the future/);
    const ahead = await openReport(browser(), { run: { clockDifferenceMs: 60 * MINUTE_MS } });
    expect(await fact(ahead, 'Latest').textContent()).toBe('6, 70 min ago');
    expect(await ahead.locator('.spacer [role=row]').first().textContent()).toMatch(/^670 min ago/);
  });

  test('a report fits into 360 pixels', async () => {
    const page = await openReport(browser(), {}, 360);
    await page.getByText('The attempts as a table').click();
    expect(await overflow(page)).toBeLessThanOrEqual(0);
    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByRole('heading', { name: 'Interruptions' }).waitFor();
    expect(await overflow(page)).toBeLessThanOrEqual(0);
  });

  test('goodput: the figures, and what another interval would cost', async () => {
    const rows = ROWS.map((row) => (Number(row.version) > 3 ? { ...row, epoch: 2 } : row));
    const page = await openReport(browser(), { rows });
    await page.getByRole('link', { name: 'Goodput' }).click();
    await page.getByRole('heading', { name: 'Interruptions' }).waitFor();
    expect(await fact(page, 'Commits in the catalog').textContent()).toBe('6');
    expect(await fact(page, 'Interval, median').textContent()).toBe('20 min');
    expect(await fact(page, 'Time to commit, median').textContent()).toMatch(/^2\.0 s, of 1 version\./);
    expect(await page.locator('dd', { hasText: /^at most/ }).textContent()).toBe(
      'at most 10 min at 1 interruption',
    );
    expect(await page.locator('dd', { hasText: /^at least/ }).textContent()).toMatch(/^at least 40 min: /);
    await page.getByLabel('Seconds that a save blocks training').fill('60');
    // √(2 · 1 min · 100 min) is 14.1 min. It costs 7.1 min of saves and as much of losses.
    await page
      .getByText(/^With an interval of 14 min the model expects a cost of 14 min instead of 15 min/)
      .waitFor();
    const compared = page.locator('tr', { hasText: 'as measured' }).locator('td');
    expect(await compared.allTextContents()).toEqual(['20 min', '5 min', '10 min', '15 min']);
  });
});
