/**
 * `bench references`: measures what it costs a save to look for unchanged files, and what a save of
 * only unchanged files costs.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { MINIO } from '../servers/go-program.ts';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import { builtCli, type Cli } from './cli.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { chosen, positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { type ProcessCost, runToEnd } from './s3/process-cost.ts';
import { GIB, makePattern, parseShape, type Shape, scaleShape, totalBytes, writeFiles } from './s3/shapes.ts';
import { spread } from './statistics.ts';

const STORES = ['local', 'MinIO'] as const;
type StoreName = (typeof STORES)[number];

/**
 * The first two kinds save new files, each to a new run. The others save to the run of the second,
 * one after the other: files that have changed, the same again (sent once more, with their hash),
 * and the same again (referred to).
 */
const KINDS = [
  'new, dedupe off',
  'new, dedupe auto',
  'changed, dedupe auto',
  'unchanged once, dedupe auto',
  'unchanged, dedupe auto',
] as const;
type Kind = (typeof KINDS)[number];

/** Processor time. */
const SLOWDOWN_MAX = 1.05;

export interface ReferencesRun extends ProcessCost {
  readonly shape: string;
  readonly store: StoreName;
  readonly kind: Kind;
  readonly round: number;
}

export interface ReferencesReport {
  readonly conditions: string;
  readonly shapes: readonly Shape[];
  readonly stores: readonly StoreName[];
  readonly runs: readonly ReferencesRun[];
}

/**
 * Prints tables and writes `references.json` and `.md`. Resolves to false if a target was missed.
 */
export async function benchReferences(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      shapes: { type: 'string', default: '1x1GiB,1000x64KiB' },
      stores: { type: 'string', default: STORES.join(',') },
      'sizes-scale': { type: 'string', default: '1' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const scale = positive('--sizes-scale', values['sizes-scale']);
  const shapes = values.shapes.split(',').map((text) => scaleShape(parseShape(text), scale));
  const stores = chosen('--stores', values.stores, STORES);
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(values.dir, async (directory) => {
    const runs: ReferencesRun[] = [];
    for (const shape of shapes) runs.push(...(await measureShape(shape, { cli, rounds, directory, stores })));
    const conditions = `${machineText()}; ${MINIO.title} ${MINIO.version}, same machine; ${rounds} rounds, median [min–max], ratios of each round`;
    const report: ReferencesReport = { conditions, shapes, stores, runs };
    const verdicts = referencesVerdicts(report);
    publish(
      'references',
      { markdown: markdownOf(report), json: { ...report, verdicts }, charts: {} },
      values.out,
    );
    return verdicts.every(isMet);
  });
}

interface Workplace {
  readonly cli: Cli;
  readonly rounds: number;
  readonly directory: string;
  readonly stores: readonly StoreName[];
}

async function measureShape(shape: Shape, work: Workplace): Promise<ReferencesRun[]> {
  const { directory, stores, rounds } = work;
  // Room for the files, and in one store at a time for one run with them and one with three copies.
  assertRoom(shape.name, directory, 5 * totalBytes(shape));
  const files = join(directory, 'files');
  writeFiles(files, shape, makePattern());
  const runs: ReferencesRun[] = [];
  for (let round = 0; round < rounds; round++)
    for (const store of stores) runs.push(...(await runRound({ ...work, files, shape, store, round })));
  rmSync(files, { recursive: true });
  return runs;
}

interface Round extends Workplace {
  readonly files: string;
  readonly shape: Shape;
  readonly store: StoreName;
  readonly round: number;
}

interface Place {
  readonly uri: string;
  readonly env: Readonly<Record<string, string>>;
}

async function runRound({ cli, directory, files, shape, store, round }: Round): Promise<ReferencesRun[]> {
  const { newRun, end } = await openPlaces(store, directory);
  const save = async (kind: Kind, { uri, env }: Place): Promise<ReferencesRun> => {
    // Flush the page cache first. Otherwise this run pays for the writes of the previous one.
    await runToEnd({ program: 'sync', args: [], env: { PATH: process.env['PATH'] ?? '' } });
    const how = kind === 'new, dedupe off' ? 'off' : 'auto';
    const args = ['save', files, uri, '--dedupe', how, '--on-stale', 'off', '--quiet'];
    const cost = await cli.cost(args, { HOME: directory, ...env });
    say(`round ${round + 1}, ${shape.name}, ${store}, ${kind}: ${(cost.wallMs / 1000).toFixed(2)} s`);
    return { ...cost, shape: shape.name, store, kind, round };
  };
  try {
    const [plain, hashed] = [await newRun(), await newRun()];
    const [off, auto, changed, once, unchanged] = KINDS;
    // The order alternates between rounds.
    const before = round % 2 === 0 ? [await save(off, plain)] : [];
    const runs = [...before, await save(auto, hashed)];
    if (round % 2 !== 0) runs.push(await save(off, plain));
    changeFirstBytes(files);
    for (const kind of [changed, once, unchanged]) runs.push(await save(kind, hashed));
    return runs;
  } finally {
    await end();
  }
}

/** Changes each file, without changing its size. */
function changeFirstBytes(directory: string): void {
  for (const name of readdirSync(directory)) {
    const file = openSync(join(directory, name), 'r+');
    writeSync(file, randomBytes(8), 0, 8, 0);
    closeSync(file);
  }
}

/** Opens new runs for this round. */
async function openPlaces(
  store: StoreName,
  directory: string,
): Promise<{ newRun: () => Promise<Place>; end: () => Promise<void> }> {
  if (store === 'MinIO') {
    const minio = await startMinio({ directory });
    return { newRun: () => newBucketOf(minio), end: () => minio.stop() };
  }
  const place = mkdtempSync(join(directory, 'runs-'));
  let count = 0;
  return {
    newRun: async () => ({ uri: pathToFileURL(join(place, `${count++}`)).href, env: {} }),
    end: async () => rmSync(place, { recursive: true, force: true }),
  };
}

/** In the order of their rounds. */
function runsOf({ runs }: ReferencesReport, shape: Shape, store: StoreName, kind: Kind): ReferencesRun[] {
  return runs.filter((run) => run.shape === shape.name && run.store === store && run.kind === kind);
}

export function referencesVerdicts(report: ReferencesReport): Verdict[] {
  const [off, auto, changed, , unchanged] = KINDS;
  return report.shapes.flatMap((shape) =>
    report.stores.flatMap((store): Verdict[] => {
      const wallMs = (kind: Kind) => runsOf(report, shape, store, kind).map((run) => run.wallMs);
      const cpuMs = (kind: Kind) =>
        runsOf(report, shape, store, kind).map((run) => run.userMs + run.systemMs);
      const what = `${shape.name}, ${store}`;
      return [
        {
          what: `${what}: client CPU all changed / dedupe off`,
          values: ratios(cpuMs(changed), cpuMs(off)),
          wanted: { atMost: SLOWDOWN_MAX },
        },
        {
          what: `${what}: wall time all unchanged / all new`,
          values: ratios(wallMs(unchanged), wallMs(auto)),
          wanted: { atMost: 1 },
        },
      ];
    }),
  );
}

function tableOf(report: ReferencesReport, shape: Shape): string {
  const gib = totalBytes(shape) / GIB;
  const rows = report.stores.flatMap((store) =>
    KINDS.map((kind) => {
      const runs = runsOf(report, shape, store, kind);
      const of = (value: (run: ReferencesRun) => number) => spread(runs.map(value), 2);
      const cpu = of((run) => (run.userMs + run.systemMs) / 1000 / gib);
      return [store, kind, of((run) => run.wallMs / 1000), cpu];
    }),
  );
  return markdownTable(['store', 'files', 'wall s', 'client CPU s/GiB'], rows);
}

function markdownOf(report: ReferencesReport): string {
  const sections = report.shapes.flatMap((shape) => [`### ${shape.name}`, tableOf(report, shape)]);
  return `${[report.conditions, verdictTable(referencesVerdicts(report)), ...sections].join('\n\n')}\n`;
}
