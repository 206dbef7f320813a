/**
 * `bench ui`: the page of a run with many versions in Chromium, the requests of an idle page, and
 * the memory of the server beside many runs, in a directory and on MinIO. The command is the packed
 * one.
 */

import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openStore } from '@holdfast/stores';
import { chromium, type Page } from 'playwright-core';
import { HOLDFAST } from '../e2e/holdfast-process.ts';
import { pack } from '../e2e/packed-command.ts';
import { Program } from '../e2e/program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { chromiumProgram } from '../ui/chromium-program.ts';
import { fillRun } from './fill-run.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { countOf } from './options.ts';
import { machineText, publish, verdictTable } from './results.ts';

const MIB = 1024 * 1024;
const IDLE_MS = 40_000;
const SCROLL_MS = 3000;
/** As long as a person needs at least to open the address. */
const LATER_MS = 2000;

/** Prints a table of the figures and their limits. */
export async function benchUi(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      versions: { type: 'string', default: '10000' },
      runs: { type: 'string', default: '1000' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
    },
  });
  const rounds = countOf('--rounds', values.rounds);
  const [versions, runs] = [countOf('--versions', values.versions), countOf('--runs', values.runs)];
  await pack();
  const { atOnce, later, requests, frames, longest, local, s3 } = await inNewDirectory(
    values.dir,
    async (directory) => ({
      ...(await ofOneRun(directory, versions, rounds)),
      local: await ofManyRuns({ uri: pathToFileURL(join(directory, 'many')).href, env: {} }, runs),
      s3: await onMinio(directory, runs),
    }),
  );
  const verdicts = [
    ...[
      { when: 'at once', took: atOnce },
      { when: 'after two seconds', took: later },
    ].flatMap(({ when, took }) => [
      { what: `opened ${when}: first of ${versions} rows, ms`, values: took.first, wanted: { atMost: 1000 } },
      { what: `opened ${when}: whole page, ms`, values: took.whole, wanted: { atMost: 1000 } },
    ]),
    {
      what: 'time between frames while the list is scrolled, 95 of 100, ms',
      values: frames,
      wanted: { atMost: 20 },
    },
    { what: 'the longest of them, ms', values: longest, wanted: { atMost: 50 } },
    { what: 'requests of an idle page in 10 s', values: requests, wanted: { atMost: 1 } },
    { what: `memory of the server with ${runs} runs, MiB`, values: [local], wanted: { atMost: 150 } },
    { what: `the same, runs on MinIO, MiB`, values: [s3], wanted: { atMost: 150 } },
  ];
  const markdown = `${machineText()}\n\n${verdictTable(verdicts)}\n`;
  publish('ui', { markdown, json: { verdicts }, charts: {} }, values.out);
}

interface Place {
  readonly uri: string;
  /** With the credentials. */
  readonly env: Readonly<Record<string, string>>;
}

/** Runs the packed command while `use` works with its address. */
async function withUi<T>({ uri, env }: Place, use: (url: string, pid: number) => Promise<T>): Promise<T> {
  const program = new Program([...HOLDFAST, 'ui', uri], { env });
  try {
    const [, url = ''] = await program.says(/the page is at {2}(\S+)/);
    return await use(url, program.pid);
  } finally {
    program.kill('SIGKILL');
    await program.ended;
  }
}

async function newRun({ uri, env }: Place, versions: number): Promise<void> {
  const store = await openStore(uri, env);
  const startMs = Date.now() - versions * 60_000;
  await fillRun(store, versions, {
    isCatalogOnly: true,
    commitMs: (version) => startMs + version * 60_000,
  });
  await store.close();
}

/**
 * From the navigation to the first row, and to the pictures of the whole run, then a scroll; each
 * time by a new server and a new profile.
 */
async function ofOneRun(directory: string, versions: number, rounds: number) {
  const run = { uri: pathToFileURL(join(directory, 'one')).href, env: {} };
  await newRun(run, versions);
  const browser = await chromium.launch({
    executablePath: await chromiumProgram(),
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
  const atOnce: Opened = { first: [], whole: [] };
  const later: Opened = { first: [], whole: [] };
  const requests: number[] = [];
  const frames: number[] = [];
  const longest: number[] = [];
  try {
    for (let round = 0; round < rounds; round++) {
      await withUi(run, async (url) => {
        const page = await (await browser.newContext()).newPage();
        await page.waitForTimeout(LATER_MS);
        await open(page, url, later);
      });
      await withUi(run, async (url) => {
        const page = await (await browser.newContext()).newPage();
        await open(page, url, atOnce);
        const between = (await framesOfScroll(page)).sort((a, b) => a - b);
        frames.push(between[Math.floor(between.length * 0.95)] as number);
        longest.push(between.at(-1) as number);
        if (round > 0) return;
        await page.waitForTimeout(2000);
        let count = 0;
        page.on('request', () => (count += 1));
        await page.waitForTimeout(IDLE_MS);
        requests.push((count * 10_000) / IDLE_MS);
      });
    }
  } finally {
    await browser.close();
  }
  return { atOnce, later, requests, frames, longest };
}

/** Milliseconds from the navigation, a value for each round. */
interface Opened {
  readonly first: number[];
  readonly whole: number[];
}

async function open(page: Page, url: string, { first, whole }: Opened): Promise<void> {
  const startMs = performance.now();
  await page.goto(url);
  await page.locator('.spacer a').first().waitFor();
  first.push(performance.now() - startMs);
  await page.locator('.picture circle.dot').first().waitFor();
  whole.push(performance.now() - startMs);
}

/** Scrolls the list by ten rows in each frame, as a finger does. Milliseconds between frames. */
function framesOfScroll(page: Page): Promise<number[]> {
  return page.locator('.scroller').evaluate(async (list, forMs) => {
    const window = globalThis as unknown as { requestAnimationFrame(call: (atMs: number) => void): void };
    const frame = () => new Promise<number>((resolve) => window.requestAnimationFrame(resolve));
    const between: number[] = [];
    const startMs = await frame();
    for (let beforeMs = startMs; beforeMs - startMs < forMs; ) {
      list.scrollTop += 460;
      const nowMs = await frame();
      between.push(nowMs - beforeMs);
      beforeMs = nowMs;
    }
    return between;
  }, SCROLL_MS);
}

/** The largest memory that the server had while a page has listed all runs, and their commits. */
async function ofManyRuns({ uri, env }: Place, runs: number): Promise<number> {
  for (let index = 0; index < runs; index++) await newRun({ uri: runBelow(uri, index), env }, 20);
  return withUi({ uri, env }, async (url, pid) => {
    const { origin, hash } = new URL(url);
    const headers = { authorization: `Bearer ${hash.split('token=')[1]}` };
    const ask = async (path: string) => (await fetch(`${origin}${path}`, { headers })).json();
    let view: { runs: { uri: string }[]; doneAtMs: number | null };
    do view = (await ask('/api/runs')) as typeof view;
    while (view.doneAtMs === null);
    if (view.runs.length !== runs) throw new Error(`${view.runs.length} of ${runs} runs were found`);
    for (let at = 0; at < runs; at += 50) {
      const uris = view.runs.slice(at, at + 50).map(({ uri }) => ['uri', uri]);
      await ask(`/api/sparks?${new URLSearchParams(uris as [string, string][])}`);
    }
    const [, kib = '0'] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return (Number(kib) * 1024) / MIB;
  });
}

/** A URI may end with the settings of its store. */
function runBelow(uri: string, index: number): string {
  return uri.replace(/\?|$/, (rest) => `/run-${index}${rest}`);
}

async function onMinio(directory: string, runs: number): Promise<number> {
  const server = await startMinio({ directory });
  try {
    return await ofManyRuns(await newBucketOf(server), runs);
  } finally {
    await server.stop();
  }
}
