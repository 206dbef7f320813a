/**
 * `bench workers`: measures what transfer workers bring. On two processors they share these with
 * the main thread, Node's thread pool and the server, so the targets are for machines with more.
 */

import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import { startDiscardServer } from './discard/process.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { runToEnd } from './s3/process-cost.ts';
import { GIB, MIB, makePattern, parseShape, type Shape, totalBytes, writeFiles } from './s3/shapes.ts';
import { spread } from './statistics.ts';

const KINDS = ['hash', 'send'] as const;
type Kind = (typeof KINDS)[number];

const TITLES: Readonly<Record<Kind, string>> = {
  hash: 'read, CRC32C, BLAKE3, dropped in the worker',
  send: 'read, CRC32C, sent to the discarding server over plain HTTP',
};

/** A younger file is read twice, because its times may not tell that it changes. */
export const QUIET_MS = 61_000;
const SPEED_UP_MIN = 1.7;
const MAIN_SHARE_MAX = 0.15;

const DRIVER = fileURLToPath(new URL('./workers-driver.mjs', import.meta.url));

export interface CallCost {
  readonly wallMs: number;
  /** User and system time of all threads. */
  readonly cpuMs: number;
  readonly mainCpuMs: number;
  readonly peakRssBytes: number;
}

/** One save. */
export interface WorkersRun extends CallCost {
  readonly kind: Kind;
  readonly workers: number;
  readonly round: number;
}

export interface WorkersReport {
  readonly conditions: string;
  readonly shape: Shape;
  readonly counts: readonly number[];
  readonly runs: readonly WorkersRun[];
}

/** Prints tables and writes `workers.json` and `.md`. Resolves to false if a target was missed. */
export async function benchWorkers(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      workers: { type: 'string', default: '0,1,2' },
      size: { type: 'string', default: '256MiB' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const counts = values.workers.split(',').map(Number);
  if (!counts.every((count) => Number.isInteger(count) && count >= 0 && count <= 64))
    throw new Error(`--workers is "${values.workers}"; it takes numbers from 0 to 64, as in 0,2,4`);
  const shape = parseShape(`16x${values.size}`);
  const fromSources = values['from-sources'];
  if (!fromSources && !runStep(BUILD)) throw new Error('the build failed; its own words are above');
  return inNewDirectory(values.dir, async (directory) => {
    const runs = await measureAll({ rounds, counts, shape, directory, fromSources });
    const conditions = `${machineText()}; ${shape.name}, in the page cache; ${rounds} rounds, median [min–max], ratios of each round`;
    const report: WorkersReport = { conditions, shape, counts, runs };
    const verdicts = workersVerdicts(report);
    publish(
      'workers',
      { markdown: markdownOf(report), json: { ...report, verdicts }, charts: {} },
      values.out,
    );
    return verdicts.every(isMet);
  });
}

interface Series {
  readonly rounds: number;
  readonly counts: readonly number[];
  readonly shape: Shape;
  readonly directory: string;
  readonly fromSources: boolean;
}

async function measureAll(series: Series): Promise<WorkersRun[]> {
  const { rounds, counts, shape, directory } = series;
  assertRoom(shape.name, directory, totalBytes(shape) + 64 * MIB);
  const pattern = makePattern();
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, pattern);
  const files = join(directory, 'files');
  writeFiles(files, shape, pattern);
  say('waiting for a minute, until the files are read only once');
  await sleep(QUIET_MS);
  const server = await startDiscardServer('s3', patternPath);
  const runs: WorkersRun[] = [];
  try {
    for (let round = 0; round < rounds; round++)
      for (const kind of KINDS)
        for (const workers of counts) {
          const run = `run-${round}-${workers}`;
          const remote = `s3://bench/${run}?endpoint=${encodeURIComponent(server.endpoint)}&region=us-east-1`;
          // The first save to a new run finds no file to compare with, so it computes no BLAKE3.
          const job = kind === 'hash' ? { uri: 'drop://x', saveCount: 2 } : { uri: remote, saveCount: 1 };
          const cost = await measureCall({ ...job, directory: files, workers }, series);
          runs.push({ kind, workers, round, ...cost });
          say(`round ${round + 1}, ${kind}, ${workers} workers: ${(cost.wallMs / 1000).toFixed(2)} s`);
        }
  } finally {
    await server.close();
  }
  return runs;
}

interface Job {
  readonly uri: string;
  readonly directory: string;
  /** Without a number, as the default chooses. */
  readonly workers?: number;
  /** Requests in flight; absent: as many as the store prefers. */
  readonly concurrency?: number;
  /** The last one is measured. */
  readonly saveCount: number;
  /** A directory: the latest checkpoint is restored there, and nothing is saved. */
  readonly restoreTo?: string;
  /** Absent: a writer alone, in an attempt of its own. */
  readonly attempt?: string;
  readonly writer?: { readonly index: number; readonly count: number };
  /** Absent: the next. */
  readonly version?: number;
}

/** A save or a restore in a process of its own. `directory` becomes its home. */
export async function measureCall(
  job: Job,
  { directory, fromSources }: Pick<Series, 'directory' | 'fromSources'>,
): Promise<CallCost> {
  const flags = fromSources ? ['--conditions=holdfast-source'] : [];
  const args = [...flags, DRIVER, JSON.stringify(job)];
  const env = { HOME: directory, AWS_ACCESS_KEY_ID: 'any', AWS_SECRET_ACCESS_KEY: 'any' };
  const { stdout } = await runToEnd({ program: process.execPath, args, env });
  return JSON.parse(stdout);
}

/** In the order of their rounds. */
function runsOf({ runs }: WorkersReport, kind: Kind, workers: number): WorkersRun[] {
  return runs.filter((run) => run.kind === kind && run.workers === workers);
}

export function workersVerdicts(report: WorkersReport): Verdict[] {
  const wallMs = (workers: number) => runsOf(report, 'hash', workers).map((run) => run.wallMs);
  return report.counts
    .filter((workers) => workers > 0)
    .flatMap((workers): Verdict[] => [
      {
        what: `${TITLES.hash}: speed with ${workers} workers / with one thread`,
        values: ratios(wallMs(0), wallMs(workers)),
        wanted: workers === 2 ? { atLeast: SPEED_UP_MIN } : undefined,
      },
      {
        what: `${TITLES.send}: share of the main thread in the CPU time with ${workers} workers`,
        values: runsOf(report, 'send', workers).map((run) => run.mainCpuMs / run.cpuMs),
        wanted: { atMost: MAIN_SHARE_MAX },
      },
    ])
    .filter(({ values }) => values.length > 0);
}

function tableOf(report: WorkersReport, kind: Kind): string {
  const gib = totalBytes(report.shape) / GIB;
  const rows = report.counts.map((workers) => {
    const runs = runsOf(report, kind, workers);
    const of = (value: (run: WorkersRun) => number, digits = 2) => spread(runs.map(value), digits);
    return [
      String(workers),
      of((run) => run.wallMs / 1000),
      of((run) => gib / (run.wallMs / 1000)),
      of((run) => run.cpuMs / 1000 / gib),
      of((run) => run.mainCpuMs / run.cpuMs),
      of((run) => run.peakRssBytes / MIB, 0),
    ];
  });
  const head = ['workers', 'wall s', 'GiB/s', 'CPU s/GiB', 'main thread', 'peak RSS MiB'];
  return markdownTable(head, rows);
}

function markdownOf(report: WorkersReport): string {
  const sections = KINDS.flatMap((kind) => [`### ${TITLES[kind]}`, tableOf(report, kind)]);
  return `${[report.conditions, verdictTable(workersVerdicts(report)), ...sections].join('\n\n')}\n`;
}
