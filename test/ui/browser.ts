/** A real Chromium, and pages of `holdfast ui` in it. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { type RunningUi, startUi, type UiOptions } from '@holdfast/ui';
import { buildPage } from '@holdfast/ui/build';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { CHROMIUM_TITLE, chromiumProgram } from './chromium-program.ts';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const NO_CHROMIUM = await whyNone(CHROMIUM_TITLE, () => chromiumProgram());

export interface RunningBrowser {
  readonly browser: Browser;
  readonly html: string;
  stop(): Promise<void>;
}

/** A `describe` with a browser and the page of these sources. */
export function describeInBrowser(name: string, body: (browser: () => RunningBrowser) => void): void {
  describeOnServer({ suite: 'browser', name, whyNone: NO_CHROMIUM, open: openBrowser }, body);
}

async function openBrowser(): Promise<RunningBrowser> {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-chromium-'));
  const [{ html }, executablePath] = await Promise.all([buildPage(), chromiumProgram()]);
  const browser = await chromium.launch({
    executablePath,
    args: FLAGS,
    env: { ...process.env, HOME: directory } as Record<string, string>,
  });
  const stop = async () => {
    await browser.close();
    rmSync(directory, { recursive: true, force: true });
  };
  return { browser, html, stop };
}

/** The server behind the page, in this process, until the end of the test. */
export async function serve(
  { html }: RunningBrowser,
  uris: readonly string[],
  more: Partial<UiOptions> = {},
): Promise<RunningUi> {
  const ui = await startUi({
    session: { programVersion: '1.2.3', uris, mayChange: false, ...more.session },
    page: html,
    token: 'token-for-tests-0123456789',
    host: '127.0.0.1',
    port: 0,
    tls: null,
    clock: systemClock,
    open: (uri) => openCheckpointManager(uri),
    ...more,
  });
  onTestFinished(() => ui.close());
  return ui;
}

export interface OpenPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the browser has reported: errors of scripts, refusals of the policy, failed requests. */
  readonly complaints: readonly string[];
}

/** A page of its own profile, until the end of the test. */
export async function openPage(
  { browser }: RunningBrowser,
  url: string,
  { width = 1280, scheme = 'light' }: { width?: number; scheme?: 'light' | 'dark' } = {},
): Promise<OpenPage> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  await page.goto(url);
  return { page, context, complaints };
}

/** Waits until the list of the page says that it has so many, and a run is shown as a whole. */
export async function total(page: Page, text: string): Promise<void> {
  await page.locator('.total', { hasText: new RegExp(`^${text}$`) }).waitFor({ timeout: 25_000 });
  await page.locator('.picture-room').waitFor({ state: 'detached' });
}

/** Makes the page ask now, as if it had been hidden and shown again. */
export async function askNow(page: Page): Promise<void> {
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
}
