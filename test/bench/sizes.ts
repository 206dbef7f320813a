/**
 * `bench sizes`: what a save takes by the size of its file, by the number of files and by the
 * number of workers. The discarding server receives them. The files are sparse, so that 64 GiB need
 * no room.
 */

import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import type { Counts } from './discard/counter.ts';
import { type DiscardServer, startDiscardServer } from './discard/process.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { lineChart } from './line-chart.ts';
import { positive, say } from './options.ts';
import { machineText, markdownTable, publish } from './results.ts';
import { GIB, MIB, PATTERN_BYTES, parseShape, type Shape, scaleShape, totalBytes } from './s3/shapes.ts';
import { median } from './statistics.ts';
import { measureSave, QUIET_MS, type SaveCost } from './workers.ts';

const BY_SIZE = [1, 16, 256, 4096, 65_536].map((mebibytes) => `1x${mebibytes}MiB`);
const BY_FILES = [1, 16, 256, 4096].map((count) => `${count}x${4096 / count}MiB`);
const BY_WORKERS = '16x256MiB';
const WORKERS = [0, 1, 2, 4, 8];

const KINDS = ['size', 'files', 'workers'] as const;
type Kind = (typeof KINDS)[number];

const TITLES: Readonly<Record<Kind, string>> = {
  size: 'One file, by its size',
  files: '4 GiB, by the number of files',
  workers: `${BY_WORKERS}, by the number of workers`,
};

/** One save. */
export interface SizesRun extends SaveCost {
  readonly kind: Kind;
  readonly shape: string;
  readonly workers: number;
  readonly counts: Counts;
}

interface Row {
  readonly kind: Kind;
  readonly shape: Shape;
  /** -1: as the default chooses. */
  readonly workers: number;
}

/** Prints tables and writes `sizes.json`, `.md` and a chart. */
export async function benchSizes(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '3' },
      'sizes-scale': { type: 'string', default: '1' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const scale = positive('--sizes-scale', values['sizes-scale']);
  const fromSources = values['from-sources'];
  if (!fromSources && !runStep(BUILD)) throw new Error('the build failed; its own words are above');
  await inNewDirectory(values.dir, async (directory) => {
    const runs = await measureAll(rowsOf(scale), rounds, directory, fromSources);
    const conditions = `${machineText()}; sparse files, discarding server on the same machine; ${rounds} rounds, medians`;
    const markdown = markdownOf(conditions, runs);
    const charts = { 'sizes.svg': chartOf(runs) };
    publish('sizes', { markdown, json: { conditions, runs }, charts }, values.out);
  });
}

function rowsOf(scale: number): Row[] {
  const row = (kind: Kind, text: string, workers: number): Row => ({
    kind,
    shape: scaleShape(parseShape(text), scale),
    workers,
  });
  return [
    ...BY_SIZE.map((text) => row('size', text, -1)),
    ...BY_FILES.map((text) => row('files', text, -1)),
    ...WORKERS.map((workers) => row('workers', BY_WORKERS, workers)),
  ];
}

async function measureAll(
  rows: readonly Row[],
  rounds: number,
  directory: string,
  fromSources: boolean,
): Promise<SizesRun[]> {
  const patternPath = join(directory, 'pattern');
  // The server recognizes what it discards, and sparse files are zeros.
  writeFileSync(patternPath, Buffer.alloc(PATTERN_BYTES));
  for (const { shape } of rows) makeSparse(join(directory, shape.name), shape);
  say('waiting for a minute, until the files are read only once');
  await sleep(QUIET_MS);
  const server = await startDiscardServer('s3', patternPath);
  const runs: SizesRun[] = [];
  try {
    for (let round = 0; round < rounds; round++)
      for (const row of rows) {
        const run = await measure(row, `run-${runs.length}`, { server, directory, fromSources });
        runs.push(run);
        say(
          `round ${round + 1}, ${row.kind}, ${row.shape.name}, workers ${row.workers}: ${(run.wallMs / 1000).toFixed(2)} s`,
        );
      }
  } finally {
    await server.close();
  }
  return runs;
}

function makeSparse(directory: string, { fileCount, fileBytes }: Shape): void {
  mkdirSync(directory, { recursive: true });
  for (let index = 0; index < fileCount; index++) {
    const path = join(directory, `f${index}`);
    writeFileSync(path, '');
    truncateSync(path, fileBytes);
  }
}

interface Place {
  readonly server: DiscardServer;
  readonly directory: string;
  readonly fromSources: boolean;
}

async function measure(row: Row, run: string, { server, directory, fromSources }: Place): Promise<SizesRun> {
  const { kind, shape, workers } = row;
  const uri = `s3://bench/${run}?endpoint=${encodeURIComponent(server.endpoint)}&region=us-east-1`;
  const job = { uri, directory: join(directory, shape.name), saveCount: 1 };
  await server.counts();
  const cost = await measureSave(workers < 0 ? job : { ...job, workers }, { directory, fromSources });
  return { kind, shape: shape.name, workers, counts: await server.counts(), ...cost };
}

/** The runs of one row, in the order of their rounds. */
function groupsOf(runs: readonly SizesRun[], kind: Kind): SizesRun[][] {
  const groups = Map.groupBy(
    runs.filter((run) => run.kind === kind),
    ({ shape, workers }) => `${shape} ${workers}`,
  );
  return [...groups.values()];
}

const medianOf = (runs: readonly SizesRun[], value: (run: SizesRun) => number): number =>
  median(runs.map(value));

function markdownOf(conditions: string, runs: readonly SizesRun[]): string {
  const sections = KINDS.flatMap((kind) => {
    const rows = groupsOf(runs, kind).map((group) => {
      const [first] = group;
      const of = (value: (run: SizesRun) => number, digits: number) => medianOf(group, value).toFixed(digits);
      const gib = first === undefined ? 1 : totalBytes(parseShape(first.shape)) / GIB;
      return [
        kind === 'workers' ? String(first?.workers) : (first?.shape ?? ''),
        of(({ counts }) => counts.requests, 0),
        of(({ wallMs }) => wallMs / 1000, 2),
        of(({ wallMs }) => gib / (wallMs / 1000), 2),
        of(({ cpuMs }) => cpuMs / 1000, 2),
        of(({ peakRssBytes }) => peakRssBytes / MIB, 0),
      ];
    });
    const head = [kind, 'requests', 'wall s', 'GiB/s', 'CPU s', 'peak RSS MiB'];
    return [`### ${TITLES[kind]}`, markdownTable(head, rows)];
  });
  return `${[conditions, ...sections].join('\n\n')}\n`;
}

function chartOf(runs: readonly SizesRun[]): string {
  const panel = (title: string, kind: Kind, sizeOf: (shape: Shape) => number) => {
    const line = (label: string, value: (run: SizesRun) => number) => ({
      label,
      points: groupsOf(runs, kind).map((group) => ({
        size: sizeOf(parseShape(group[0]?.shape ?? '1x1MiB')),
        value: medianOf(group, value),
      })),
    });
    return {
      title,
      lines: [
        line('requests', ({ counts }) => counts.requests),
        line('wall ms', ({ wallMs }) => wallMs),
        line('CPU ms', ({ cpuMs }) => cpuMs),
        line('peak RSS MiB', ({ peakRssBytes }) => peakRssBytes / MIB),
      ],
    };
  };
  return lineChart('A save to a server that drops the bytes', 'both axes by powers of ten', [
    panel('one file, by its MiB', 'size', (shape) => totalBytes(shape) / MIB),
    panel('4 GiB, by the number of files', 'files', ({ fileCount }) => fileCount),
  ]);
}
