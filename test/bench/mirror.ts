/**
 * `bench mirror`: compares `holdfast mirror` between stores with a save of the same files to the
 * slower store.
 */

import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { newAzureContainer } from '../servers/azure-access.ts';
import { AZURITE_TITLE, startAzurite } from '../servers/azure-server.ts';
import { MINIO } from '../servers/go-program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { builtCli, type Cli } from './cli.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { barChart } from './s3/chart.ts';
import { type ProcessCost, runToEnd } from './s3/process-cost.ts';
import {
  GIB,
  MIB,
  makePattern,
  parseShape,
  type Shape,
  scaleShape,
  totalBytes,
  writeFiles,
} from './s3/shapes.ts';
import { spread, summarize } from './statistics.ts';

const STORES = ['local', 'MinIO', 'Azurite'] as const;
type StoreName = (typeof STORES)[number];

const WAYS = [
  { from: 'local', to: 'MinIO' },
  { from: 'MinIO', to: 'Azurite' },
] as const satisfies readonly { from: StoreName; to: StoreName }[];
type Way = (typeof WAYS)[number];

const SPEED_RATIO_MIN = 0.7;
/** The byte budget of the command line, and the allowance on top of it. */
const RSS_MIB_MAX = 256 + 128;

export interface MirrorRun extends ProcessCost {
  readonly shape: string;
  /** In the form of `saveTo` and `mirrorBy`. */
  readonly what: string;
  readonly round: number;
}

const saveTo = (store: StoreName) => `save to ${store}`;
const mirrorBy = ({ from, to }: Way) => `mirror ${from} → ${to}`;
const KINDS: readonly string[] = [...STORES.map(saveTo), ...WAYS.map(mirrorBy)];

export interface MirrorReport {
  readonly conditions: string;
  readonly shapes: readonly Shape[];
  readonly runs: readonly MirrorRun[];
}

/**
 * Prints tables and writes `mirror.json`, `.md` and charts. Resolves to false if a target was
 * missed.
 */
export async function benchMirror(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      shapes: { type: 'string', default: '1x1GiB' },
      'sizes-scale': { type: 'string', default: '1' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const scale = positive('--sizes-scale', values['sizes-scale']);
  const shapes = values.shapes.split(',').map((text) => scaleShape(parseShape(text), scale));
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(values.dir, async (directory) => {
    const runs: MirrorRun[] = [];
    for (const shape of shapes) runs.push(...(await mirrorShape(shape, { cli, rounds, directory })));
    const conditions = `${machineText()}; ${MINIO.title} ${MINIO.version} and ${AZURITE_TITLE}, same machine; ${rounds} rounds, median [min–max], ratios of each round`;
    const report: MirrorReport = { conditions, shapes, runs };
    const verdicts = mirrorVerdicts(report);
    publish(
      'mirror',
      { markdown: markdownOf(report), json: { ...report, verdicts }, charts: chartsOf(report) },
      values.out,
    );
    return verdicts.every(isMet);
  });
}

interface Workplace {
  readonly cli: Cli;
  readonly rounds: number;
  readonly directory: string;
}

async function mirrorShape(shape: Shape, { cli, rounds, directory }: Workplace): Promise<MirrorRun[]> {
  // Room for the files, and in each store for saved and mirrored data.
  assertRoom(shape.name, directory, 8 * totalBytes(shape));
  const files = join(directory, 'files');
  writeFiles(files, shape, makePattern());
  const runs: MirrorRun[] = [];
  for (let round = 0; round < rounds; round++)
    runs.push(...(await runRound({ cli, directory, files, shape, round })));
  rmSync(files, { recursive: true });
  return runs;
}

interface Round {
  readonly cli: Cli;
  readonly directory: string;
  readonly files: string;
  readonly shape: Shape;
  readonly round: number;
}

/**
 * Opens new places for this round. Servers are new each time, because an emulator's cleanup would
 * slow the next round.
 */
async function runRound({ cli, directory, files, shape, round }: Round): Promise<MirrorRun[]> {
  const minio = await startMinio({ directory });
  const azurite = await startAzurite({ directory });
  const local = join(directory, 'run');
  try {
    const saved = {
      local: pathToFileURL(local).href,
      MinIO: await newBucketOf(minio),
      Azurite: await newAzureContainer(azurite),
    };
    const mirrored = { MinIO: await newBucketOf(minio), Azurite: await newAzureContainer(azurite) };
    const env = {
      HOME: directory,
      AWS_EC2_METADATA_DISABLED: 'true',
      ...saved.MinIO.env,
      ...saved.Azurite.env,
    };
    const uris: Record<StoreName, string> = {
      local: saved.local,
      MinIO: saved.MinIO.uri,
      Azurite: saved.Azurite.uri,
    };
    const measure = async (what: string, args: readonly string[]): Promise<MirrorRun> => {
      // Flush the page cache first. Otherwise this run pays for the writes of the previous one.
      await runToEnd({ program: 'sync', args: [], env: { PATH: process.env['PATH'] ?? '' } });
      const cost = await cli.cost([...args, '--quiet'], env);
      say(`round ${round + 1}, ${shape.name}, ${what}: ${(cost.wallMs / 1000).toFixed(2)} s`);
      return { ...cost, shape: shape.name, what, round };
    };
    const save = (store: StoreName) => measure(saveTo(store), ['save', files, uris[store]]);
    const mirror = async (way: Way) => {
      const run = await measure(mirrorBy(way), ['mirror', uris[way.from], mirrored[way.to].uri]);
      // Verify every byte once, because the speed of an incorrect copy means nothing.
      if (round === 0) await cli.run(['verify', mirrored[way.to].uri], env);
      return run;
    };
    const [first, second] = WAYS;
    const before = [await save('local'), await save('MinIO'), await mirror(first)];
    // The order alternates between rounds.
    if (round % 2 === 0) return [...before, await save('Azurite'), await mirror(second)];
    return [...before, await mirror(second), await save('Azurite')];
  } finally {
    await azurite.stop();
    await minio.stop();
    rmSync(local, { recursive: true, force: true });
  }
}

/** In the order of their rounds. */
function runsOf({ runs }: MirrorReport, shape: Shape, what: string): MirrorRun[] {
  return runs.filter((run) => run.shape === shape.name && run.what === what);
}

export function mirrorVerdicts(report: MirrorReport): Verdict[] {
  return report.shapes.flatMap((shape) =>
    WAYS.flatMap((way): Verdict[] => {
      const wallMs = (what: string) => runsOf(report, shape, what).map((run) => run.wallMs);
      const [from, to] = [wallMs(saveTo(way.from)), wallMs(saveTo(way.to))];
      const slower = to.map((ms, round) => Math.max(ms, from[round] ?? 0));
      const what = `${shape.name}, ${mirrorBy(way)}`;
      // A hard limit, so no round may exceed it.
      const rssBytes = Math.max(...runsOf(report, shape, mirrorBy(way)).map((run) => run.peakRssBytes));
      return [
        {
          what: `${what}: speed / a save to the slower side`,
          values: ratios(slower, wallMs(mirrorBy(way))),
          wanted: { atLeast: SPEED_RATIO_MIN },
        },
        { what: `${what}: highest peak RSS, MiB`, values: [rssBytes / MIB], wanted: { atMost: RSS_MIB_MAX } },
      ];
    }),
  );
}

function tableOf(report: MirrorReport, shape: Shape): string {
  const gib = totalBytes(shape) / GIB;
  const rows = KINDS.map((what) => {
    const runs = runsOf(report, shape, what);
    const of = (value: (run: MirrorRun) => number, digits: number) => spread(runs.map(value), digits);
    return [
      what,
      of((run) => run.wallMs / 1000, 2),
      of((run) => (run.userMs + run.systemMs) / 1000 / gib, 2),
      of((run) => run.peakRssBytes / MIB, 0),
    ];
  });
  return markdownTable(['what', 'wall s', 'client CPU s/GiB', 'peak RSS MiB'], rows);
}

function chartName(shape: Shape): string {
  return `mirror-${shape.name}.svg`;
}

function markdownOf(report: MirrorReport): string {
  const sections = report.shapes.flatMap((shape) => [
    `### ${shape.name}`,
    `![${shape.name}: wall time of saves and mirrors](${chartName(shape)})`,
    tableOf(report, shape),
  ]);
  return `${[report.conditions, verdictTable(mirrorVerdicts(report)), ...sections].join('\n\n')}\n`;
}

function chartsOf(report: MirrorReport): Record<string, string> {
  const charts = report.shapes.map((shape) => {
    const bar = (what: string, label: string, isOurs: boolean) => ({
      label,
      ...summarize(runsOf(report, shape, what).map((run) => run.wallMs / 1000)),
      isOurs,
    });
    const rows = WAYS.map((way) => [
      {
        title: `${way.from} → ${way.to}: wall time, s`,
        bars: [
          bar(saveTo(way.from), `to ${way.from}`, false),
          bar(saveTo(way.to), `to ${way.to}`, false),
          bar(mirrorBy(way), 'mirror', true),
        ],
      },
    ]);
    const title = `Mirror of ${shape.name}, beside plain saves`;
    const svg = barChart({ title, note: 'median and range; shorter is better', rows });
    return [chartName(shape), svg] as const;
  });
  return Object.fromEntries(charts);
}
