/**
 * `bench repartition`: reshards an ElasticDL checkpoint between plain directories, compared with
 * reading and writing the same bytes with plain streams. `bench inspect`: lists the content of a
 * large shard without its values.
 */

import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkShards, openDirectoryShards } from '@holdfast/elasticdl';
import { writeCheckpoint, writeHollowShard } from './elasticdl-files.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { run, timeCommand } from './measure.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { parseShape } from './s3/shapes.ts';
import { spread } from './statistics.ts';

const MIB = 2 ** 20;
const FROM_COUNT = 4;
const TO_COUNT = 3;
const SPEED_SHARE_MIN = 0.6;
const RSS_OVER_BUDGET_MAX = 200 * MIB;
const INSPECT_MS_MAX = 100;

/** The job of `repartition-one.ts`. */
export interface RepartitionJob {
  readonly from: string;
  readonly to: string;
  readonly count: number;
  readonly bufferBytes: number;
}

export interface OneCost {
  /** Written bytes. For `inspect`, read bytes. */
  readonly bytes: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakRssBytes: number;
}

export interface RepartitionReport {
  readonly conditions: string;
  readonly bufferBytes: number;
  /** In the order of their rounds. */
  readonly repartition: readonly OneCost[];
  readonly streams: readonly OneCost[];
}

/**
 * Prints tables and writes `repartition.json` and `.md`. Resolves to false if a target was missed.
 */
export async function benchRepartition(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '4GiB' },
      buffer: { type: 'string', default: '256MiB' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false }, // it always runs the sources
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const { fileBytes: sizeBytes } = parseShape(`1x${values.size}`);
  const { fileBytes: bufferBytes } = parseShape(`1x${values.buffer}`);
  return inNewDirectory(values.dir, async (directory) => {
    assertRoom(values.size, directory, 3 * sizeBytes);
    const from = join(directory, 'from');
    await writeCheckpoint(from, FROM_COUNT, sizeBytes);
    const costs = await measure({ directory, from, rounds, bufferBytes });
    const conditions = `${machineText()}; ${values.size} of embeddings, ${FROM_COUNT} files to ${TO_COUNT}; ${values.buffer} of buffers; ${rounds} rounds, median [min–max]`;
    const report: RepartitionReport = { conditions, bufferBytes, ...costs };
    const verdicts = repartitionVerdicts(report);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(report)].join('\n\n')}\n`;
    publish('repartition', { markdown, json: { ...report, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

interface Plan {
  readonly directory: string;
  readonly from: string;
  readonly rounds: number;
  readonly bufferBytes: number;
}

async function measure({
  directory,
  from,
  rounds,
  bufferBytes,
}: Plan): Promise<Pick<RepartitionReport, 'repartition' | 'streams'>> {
  const costs = { repartition: [] as OneCost[], streams: [] as OneCost[] };
  const rowsBefore = await rowCount(from);
  const to = join(directory, 'to');
  const sides = ['repartition', 'streams'] as const;
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      // Flush pending writes, so that one run does not slow the next.
      await timeCommand('sync', []);
      const cost = await one(side, { from, to, count: TO_COUNT, bufferBytes });
      costs[side].push(cost);
      if (round === 0 && side === 'repartition' && (await rowCount(to)) !== rowsBefore)
        throw new Error('the divided checkpoint has another number of rows');
      rmSync(to, { recursive: true });
      say(`round ${round + 1}, ${side}: ${(cost.wallMs / 1000).toFixed(2)} s`);
    }
  }
  return costs;
}

async function rowCount(directory: string): Promise<number> {
  await using set = await openDirectoryShards(directory);
  const { tables } = await checkShards(set);
  return tables.flatMap(({ parts }) => parts).reduce((sum, { place }) => sum + place.rowCount, 0);
}

async function one(action: 'repartition' | 'streams' | 'inspect', job: RepartitionJob): Promise<OneCost> {
  const script = fileURLToPath(new URL('./repartition-one.ts', import.meta.url));
  const words = ['--conditions=holdfast-source', script, action, JSON.stringify(job)];
  return JSON.parse(await run(process.execPath, words)) as OneCost;
}

export function repartitionVerdicts({ repartition, streams, bufferBytes }: RepartitionReport): Verdict[] {
  const wall = (costs: readonly OneCost[]) => costs.map(({ wallMs }) => wallMs);
  return [
    {
      what: 'speed, as a share of plain streams',
      values: ratios(wall(streams), wall(repartition)),
      wanted: { atLeast: SPEED_SHARE_MIN },
    },
    {
      what: 'peak RSS, MiB',
      // A hard limit, so no round may exceed it.
      values: [Math.max(...repartition.map(({ peakRssBytes }) => peakRssBytes)) / MIB],
      wanted: { atMost: (bufferBytes + RSS_OVER_BUDGET_MAX) / MIB },
    },
  ];
}

function tableOf({ repartition, streams }: RepartitionReport): string {
  const row = (what: string, costs: readonly OneCost[]) => {
    const of = (value: (cost: OneCost) => number, digits: number) => spread(costs.map(value), digits);
    return [
      what,
      of(({ wallMs }) => wallMs / 1000, 2),
      of(({ bytes, wallMs }) => bytes / MIB / (wallMs / 1000), 0),
      of(({ cpuMs }) => cpuMs / 1000, 2),
      of(({ peakRssBytes }) => peakRssBytes / MIB, 0),
    ];
  };
  const rows = [row('repartition', repartition), row('plain streams', streams)];
  return markdownTable(['what', 'wall s', 'MiB/s', 'cpu s', 'peak RSS MiB'], rows);
}

export interface InspectReport {
  readonly conditions: string;
  readonly runs: readonly OneCost[];
}

/** Prints a table and writes `inspect.json` and `.md`. Resolves to false if a target was missed. */
export async function benchInspect(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '21' },
      size: { type: 'string', default: '2GiB' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false }, // it always runs the sources
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const { fileBytes: sizeBytes } = parseShape(`1x${values.size}`);
  return inNewDirectory(values.dir, async (directory) => {
    await writeHollowShard(directory, sizeBytes);
    const runs: OneCost[] = [];
    const job = { from: directory, to: '', count: 1, bufferBytes: 0 };
    for (let round = 0; round < rounds; round++) runs.push(await one('inspect', job));
    const conditions = `${machineText()}; one shard of ${values.size}, 20 tables and 200 variables; a process for each of ${rounds} rounds, median [min–max]`;
    const report: InspectReport = { conditions, runs };
    const verdicts = inspectVerdicts(report);
    const markdown = `${[conditions, verdictTable(verdicts)].join('\n\n')}\n`;
    publish('inspect', { markdown, json: { ...report, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

export function inspectVerdicts({ runs }: InspectReport): Verdict[] {
  return [
    {
      what: 'structure of the shard, ms',
      values: runs.map(({ wallMs }) => wallMs),
      wanted: { atMost: INSPECT_MS_MAX },
    },
    { what: 'read of it, KiB', values: runs.map(({ bytes }) => bytes / 1024), wanted: { atMost: 1024 } },
  ];
}
