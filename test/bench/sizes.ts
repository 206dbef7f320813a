/**
 * `bench sizes`: what a save takes by the size of its file, by the number of files, of workers, of
 * requests in flight, of versions in the run and of writers of the checkpoint, and what a restore
 * of it takes. The discarding server receives them. The files are sparse, so that 64 GiB need no
 * room.
 */

import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openCheckpointManager, openStore } from '@holdfast/stores';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import type { Counts } from './discard/counter.ts';
import { type DiscardServer, startDiscardServer } from './discard/process.ts';
import { fillRun, JOB } from './fill-run.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { lineChart } from './line-chart.ts';
import { chosen, positive, say } from './options.ts';
import { machineText, markdownTable, publish } from './results.ts';
import { GIB, MIB, PATTERN_BYTES, parseShape, type Shape, scaleShape, totalBytes } from './s3/shapes.ts';
import { median } from './statistics.ts';
import { type CallCost, measureCall, QUIET_MS } from './workers.ts';

const BY_SIZE = [1, 16, 256, 4096, 65_536].map((mebibytes) => `1x${mebibytes}MiB`);
const BY_FILES = [1, 16, 256, 4096].map((count) => `${count}x${4096 / count}MiB`);
const BY_WORKERS = '16x256MiB';
const WORKERS = [0, 1, 2, 4, 8];
const BY_CONCURRENCY = '1x1024MiB';
const CONCURRENCY = [4, 8, 16];
/** Larger ones are not restored: the disk would need the room. */
const RESTORED_BYTES_MAX = 4 * GIB;
const VERSIONS = [1, 100, 10_000];
const WRITERS = [1, 10, 100, 1000];
/** What a save of many versions and one of many writers has. */
const SMALL = '1x1KiB';

const ACCESS = { AWS_ACCESS_KEY_ID: 'any', AWS_SECRET_ACCESS_KEY: 'any' };

const KINDS = ['size', 'files', 'workers', 'concurrency', 'versions', 'writers'] as const;
type Kind = (typeof KINDS)[number];

const TITLES: Readonly<Record<Kind, string>> = {
  size: 'One file, by its size',
  files: '4 GiB, by the number of files',
  workers: `${BY_WORKERS}, by the number of workers`,
  concurrency: `${BY_CONCURRENCY}, by the number of requests in flight`,
  versions: 'A file of 1 KiB, by the versions of the run',
  writers: 'The last save and the commit, with a file of 1 KiB of each writer, by their number',
};

/** Small files only stand for a version or a writer, so restores of them tell nothing. */
function isRestored({ kind, shape }: Pick<Row, 'kind' | 'shape'>): boolean {
  return isOfBytes(kind) && totalBytes(shape) <= RESTORED_BYTES_MAX;
}

function isOfBytes(kind: Kind): boolean {
  return kind !== 'versions' && kind !== 'writers';
}

interface Call extends CallCost {
  readonly counts: Counts;
}

/** One save, and the restore of it. */
export interface SizesRun extends Call {
  readonly kind: Kind;
  readonly shape: string;
  /** By what its kind says: MiB, files, workers, requests, versions or writers. */
  readonly size: number;
  readonly restore?: Call | undefined;
}

interface Row {
  readonly kind: Kind;
  readonly shape: Shape;
  readonly size: number;
}

/** Prints tables and writes `sizes.json`, `.md` and a chart. */
export async function benchSizes(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '3' },
      'sizes-scale': { type: 'string', default: '1' },
      kinds: { type: 'string', default: KINDS.join(',') },
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
    const runs = await measureAll(
      rowsOf(chosen('--kinds', values.kinds, KINDS), scale),
      rounds,
      directory,
      fromSources,
    );
    const conditions = `${machineText()}; sparse files, discarding server on the same machine; ${rounds} rounds, medians`;
    const markdown = markdownOf(conditions, runs);
    const charts = { 'sizes.svg': chartOf(runs) };
    publish('sizes', { markdown, json: { conditions, runs }, charts }, values.out);
  });
}

function rowsOf(kinds: readonly Kind[], scale: number): Row[] {
  const shapeOf = (text: string) => scaleShape(parseShape(text), scale);
  const scaled = (counts: readonly number[]) => [
    ...new Set(counts.map((count) => Math.max(1, Math.round(count * scale)))),
  ];
  const ofKind: Readonly<Record<Kind, () => Row[]>> = {
    size: () => BY_SIZE.map(shapeOf).map((shape) => ({ kind: 'size', shape, size: totalBytes(shape) / MIB })),
    files: () => BY_FILES.map(shapeOf).map((shape) => ({ kind: 'files', shape, size: shape.fileCount })),
    workers: () => WORKERS.map((size) => ({ kind: 'workers', shape: shapeOf(BY_WORKERS), size })),
    concurrency: () =>
      CONCURRENCY.map((size) => ({ kind: 'concurrency', shape: shapeOf(BY_CONCURRENCY), size })),
    versions: () => scaled(VERSIONS).map((size) => ({ kind: 'versions', shape: parseShape(SMALL), size })),
    writers: () => scaled(WRITERS).map((size) => ({ kind: 'writers', shape: parseShape(SMALL), size })),
  };
  return kinds.flatMap((kind) => ofKind[kind]());
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
    const place = { server, directory, fromSources };
    for (const row of rows) if (row.kind === 'versions') await fillVersions(row, server);
    for (let round = 0; round < rounds; round++)
      for (const row of rows) {
        const run = await measure(row, round, place);
        runs.push(run);
        say(`round ${round + 1}, ${row.kind}, ${row.size}: ${(run.wallMs / 1000).toFixed(2)} s`);
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

function uriOf({ kind, shape, size }: Row, round: number, { endpoint }: DiscardServer): string {
  // Each round saves one version more in a run of many.
  const run = kind === 'versions' ? `versions-${size}` : `${kind}-${shape.name}-${size}-${round}`;
  return `s3://bench/${run}?endpoint=${encodeURIComponent(endpoint)}&region=us-east-1`;
}

async function fillVersions(row: Row, server: DiscardServer): Promise<void> {
  const store = await openStore(uriOf(row, 0, server), ACCESS);
  await fillRun(store, row.size).finally(() => store.close());
}

/** The writers before the last one save their files. */
async function saveAllButLast(uri: string, count: number): Promise<void> {
  for (let index = 0; index < count - 1; index++) {
    const writer = { index, count };
    await using manager = await openCheckpointManager(uri, { env: ACCESS, attempt: JOB, writer });
    await manager.save({ version: 1, buffers: { [`rank-${index}`]: new Uint8Array(1024) }, noWait: true });
  }
}

async function measure(row: Row, round: number, place: Place): Promise<SizesRun> {
  const { kind, shape, size } = row;
  const { server, directory } = place;
  const uri = uriOf(row, round, server);
  const options = {
    ...((kind === 'workers' || kind === 'concurrency') && { [kind]: size }),
    ...(kind === 'writers' && { attempt: JOB, writer: { index: size - 1, count: size }, version: 1 }),
  };
  if (kind === 'writers') await saveAllButLast(uri, size);
  await server.counts();
  const job = { uri, directory: join(directory, shape.name), saveCount: 1, ...options };
  const call = async (of: typeof job & { restoreTo?: string }): Promise<Call> => {
    const cost = await measureCall(of, place);
    return { ...cost, counts: await server.counts() };
  };
  const save = await call(job);
  const restoreTo = join(directory, 'restored');
  const restore = isRestored(row) ? await call({ ...job, restoreTo }) : undefined;
  rmSync(restoreTo, { recursive: true, force: true });
  return { kind, shape: shape.name, size, ...save, restore };
}

/** The runs of one row, in the order of their rounds. */
function groupsOf(runs: readonly SizesRun[], kind: Kind): SizesRun[][] {
  const ofKind = runs.filter((run) => run.kind === kind);
  return [...Map.groupBy(ofKind, ({ size }) => size).values()];
}

const medianOf = (runs: readonly SizesRun[], value: (run: SizesRun) => number): number =>
  median(runs.map(value));

function markdownOf(conditions: string, runs: readonly SizesRun[]): string {
  const sections = KINDS.flatMap((kind) => {
    const groups = groupsOf(runs, kind);
    if (groups.length === 0) return [];
    const first = kind === 'size' || kind === 'files' ? 'shape' : 'size';
    const rows = groups.map((group) => [
      String(group[0]?.[first]),
      ...cells(group, kind, (run) => run),
      ...(isOfBytes(kind) ? cells(group, kind, ({ restore }) => restore) : []),
    ]);
    const columns = ['requests', 'wall s', ...(isOfBytes(kind) ? ['GiB/s'] : []), 'CPU s', 'peak RSS MiB'];
    const restored = isOfBytes(kind) ? columns.map((column) => `restore: ${column}`) : [];
    return [`### ${TITLES[kind]}`, markdownTable([kind, ...columns, ...restored], rows)];
  });
  return `${[conditions, ...sections].join('\n\n')}\n`;
}

/** Medians of one call of each run. */
function cells(
  group: readonly SizesRun[],
  kind: Kind,
  callOf: (run: SizesRun) => Call | undefined,
): string[] {
  const calls = group.map(callOf).filter((call) => call !== undefined);
  const of = (value: (call: Call) => number, digits: number) =>
    calls.length === 0 ? '–' : median(calls.map(value)).toFixed(digits);
  const gib = totalBytes(parseShape(group[0]?.shape ?? SMALL)) / GIB;
  return [
    of(({ counts }) => counts.requests, 0),
    of(({ wallMs }) => wallMs / 1000, 2),
    ...(isOfBytes(kind) ? [of(({ wallMs }) => gib / (wallMs / 1000), 2)] : []),
    of(({ cpuMs }) => cpuMs / 1000, 2),
    of(({ peakRssBytes }) => peakRssBytes / MIB, 0),
  ];
}

/** The workers from one on: a logarithm has no 0. */
function chartOf(runs: readonly SizesRun[]): string {
  const panel = (title: string, kind: Kind) => {
    const groups = groupsOf(runs, kind).filter(([first]) => (first?.size ?? 0) > 0);
    const line = (label: string, value: (run: SizesRun) => number) => ({
      label,
      points: groups.map((group) => ({ size: group[0]?.size ?? 1, value: medianOf(group, value) })),
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
  const panels = [
    panel('one file, by its MiB', 'size'),
    panel('4 GiB, by the number of files', 'files'),
    panel('1 KiB, by the versions of the run', 'versions'),
    panel('last of the writers, by their number', 'writers'),
    panel('4 GiB in 16 files, by workers', 'workers'),
  ];
  const drawn = panels.filter(({ lines }) => lines.some(({ points }) => points.length > 0));
  return lineChart('A save to a server that drops the bytes', 'both axes by powers of ten', drawn);
}
