/**
 * `bench ui`: the page of a run with many versions in Chromium, the requests of an idle page, and
 * the memory of the server beside many runs. The runs are in a directory, and the command is the
 * packed one.
 */

import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openStore } from '@holdfast/stores';
import { chromium } from 'playwright-core';
import { HOLDFAST } from '../e2e/holdfast-process.ts';
import { pack } from '../e2e/packed-command.ts';
import { Program } from '../e2e/program.ts';
import { chromiumProgram } from '../ui/chromium-program.ts';
import { fillRun } from './fill-run.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { countOf } from './options.ts';
import { machineText, publish, verdictTable } from './results.ts';

const MIB = 1024 * 1024;
const IDLE_MS = 40_000;

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
  const { first, whole, requests, fleet } = await inNewDirectory(values.dir, async (directory) => ({
    ...(await ofOneRun(directory, versions, rounds)),
    fleet: await ofManyRuns(directory, runs),
  }));
  const verdicts = [
    { what: `first rows, ${versions} versions, ms`, values: first, wanted: { atMost: 1000 } },
    { what: `whole page, ${versions} versions, ms`, values: whole, wanted: { atMost: 1000 } },
    { what: 'requests of an idle page in 10 s', values: requests, wanted: { atMost: 1 } },
    { what: `memory of the server with ${runs} runs, MiB`, values: [fleet], wanted: { atMost: 150 } },
  ];
  const markdown = `${machineText()}; runs in a directory\n\n${verdictTable(verdicts)}\n`;
  publish('ui', { markdown, json: { verdicts }, charts: {} }, values.out);
}

/** Runs the packed command while `use` works with its address. */
async function withUi<T>(uri: string, use: (url: string, pid: number) => Promise<T>): Promise<T> {
  const program = new Program([...HOLDFAST, 'ui', uri]);
  try {
    const [, url = ''] = await program.says(/the page is at {2}(\S+)/);
    return await use(url, program.pid);
  } finally {
    program.kill('SIGKILL');
    await program.ended;
  }
}

async function newRun(path: string, versions: number): Promise<string> {
  const uri = pathToFileURL(path).href;
  const store = await openStore(uri);
  const startMs = Date.now() - versions * 60_000;
  await fillRun(store, versions, {
    isCatalogOnly: true,
    commitMs: (version) => startMs + version * 60_000,
  });
  await store.close();
  return uri;
}

/**
 * From the navigation to the first row, and to the pictures of the whole run; each time by a new
 * server and a new profile.
 */
async function ofOneRun(directory: string, versions: number, rounds: number) {
  const uri = await newRun(join(directory, 'one'), versions);
  const browser = await chromium.launch({
    executablePath: await chromiumProgram(),
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });
  const first: number[] = [];
  const whole: number[] = [];
  const requests: number[] = [];
  try {
    for (let round = 0; round < rounds; round++) {
      await withUi(uri, async (url) => {
        const page = await (await browser.newContext()).newPage();
        const startMs = performance.now();
        await page.goto(url);
        await page.locator('.spacer a').first().waitFor();
        first.push(performance.now() - startMs);
        await page.locator('.picture circle.dot').first().waitFor();
        whole.push(performance.now() - startMs);
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
  return { first, whole, requests };
}

/** The largest memory that the server had while a page has listed all runs, and their commits. */
async function ofManyRuns(directory: string, runs: number): Promise<number> {
  const place = join(directory, 'many');
  for (let index = 0; index < runs; index++) await newRun(join(place, `run-${index}`), 20);
  return withUi(pathToFileURL(place).href, async (url, pid) => {
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
