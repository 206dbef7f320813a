/**
 * `bench start`: measures how long the command line takes to start, to ask each store for the
 * latest checkpoint and to save a small one, and which SDKs it loads.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { type LoadedModules, loadedModules } from '../e2e/loaded-modules.ts';
import { ADAPTERS } from './adapters/adapters.ts';
import { builtCli, type Cli, measureCommand } from './cli.ts';
import { type DiscardServer, startDiscardServer } from './discard/process.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { barChart } from './s3/chart.ts';
import type { ProcessCost } from './s3/process-cost.ts';
import { MIB } from './s3/shapes.ts';
import { spread, summarize } from './statistics.ts';

const IDLE_MS_MAX = 150;
/** Cost of a command on a cloud store, relative to the same command on a local directory. */
const OF_LOCAL_MAX = 1.3;

/** One command, and the modules that it may load. */
interface Start {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The only adapter that the command may load. */
  readonly store: string | undefined;
  /** Start of the same command on a local directory. */
  readonly local?: string | undefined;
}

export interface StartRuns extends Pick<Start, 'name' | 'store' | 'local'> {
  /** Measured without the hook that records loaded modules. */
  readonly costs: readonly ProcessCost[];
  /** `undefined` for Node alone. */
  readonly loaded: LoadedModules | undefined;
}

/**
 * Prints a table and writes `start.json`, `.md` and a chart. Resolves to false if the start is too
 * slow or loads unexpected modules.
 */
export async function benchStart(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '21' },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(tmpdir(), async (directory) => {
    const starts = await measureStarts(cli, rounds, directory);
    const conditions = `${machineText()}; stores other than the local one at a discarding server, same machine; ${rounds} rounds, median [min–max]`;
    const markdown = `${[conditions, verdictTable(startVerdicts(starts)), tableOf(starts)].join('\n\n')}\n`;
    publish(
      'start',
      { markdown, json: { conditions, starts }, charts: { 'start.svg': chartOf(starts) } },
      values.out,
    );
    return startVerdicts(starts).every(isMet);
  });
}

async function measureStarts(cli: Cli, rounds: number, directory: string): Promise<StartRuns[]> {
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, 'nothing large is saved');
  const servers: DiscardServer[] = [];
  try {
    const starts: Start[] = IDLE.map((name) => ({ name, args: [name], env: {}, store: undefined }));
    const source = join(directory, 'source');
    mkdirSync(source);
    writeFileSync(join(source, 'a'), 'a');
    const local = { uri: pathToFileURL(join(directory, 'run')).href, env: {}, store: 'store-local' };
    starts.push(...startsOf(source, local));
    for (const adapter of ADAPTERS) {
      const server = await startDiscardServer(adapter.name, patternPath);
      servers.push(server);
      const uri = adapter.uri(server.endpoint, 'run');
      starts.push(...startsOf(source, { uri, env: adapter.env, store: `store-${adapter.name}` }));
    }
    return await runStarts(cli, { starts, rounds, directory });
  } finally {
    for (const server of servers) await server.close();
  }
}

interface StartedStore {
  readonly uri: string;
  readonly env: Readonly<Record<string, string>>;
  readonly store: string;
}

/** A question about a run, and a small save to it. */
function startsOf(source: string, { uri, env, store }: StartedStore): Start[] {
  const scheme = uri.slice(0, uri.indexOf('//') + 2);
  const commands = [
    ['latest', uri],
    ['save', source, uri],
  ];
  return commands.map((args) => {
    const local = scheme === 'file://' ? undefined : `${args[0]} file://`;
    return { name: `${args[0]} ${scheme}`, args, env, store, local };
  });
}

const IDLE = ['--version', '--help'];
const NODE_ALONE = [process.execPath, '--eval', '0'];

async function runStarts(
  cli: Cli,
  { starts, rounds, directory }: { starts: readonly Start[]; rounds: number; directory: string },
): Promise<StartRuns[]> {
  // HOME is empty. It keeps compiled code, as between two calls of a user.
  const home = { HOME: directory, NODE_COMPILE_CACHE: join(directory, 'compiled') };
  // `latest` needs a checkpoint, and every command its compiled code.
  for (const { args, env } of starts) if (args[0] === 'save') await cli.run(args, { ...home, ...env });
  const loaded: LoadedModules[] = [];
  for (const { args, env } of starts)
    loaded.push(await loadedModules((hook) => cli.run(args, { ...home, ...env, ...hook })));
  const costs: ProcessCost[][] = starts.map(() => []);
  const nodeCosts: ProcessCost[] = [];
  for (let round = 0; round < rounds; round++) {
    nodeCosts.push((await measureCommand(NODE_ALONE, home)).cost);
    for (const [index, { args, env }] of starts.entries())
      costs[index]?.push(await cli.cost(args, { ...home, ...env }));
    say(`round ${round + 1}`);
  }
  const ours = starts.map(({ name, store, local }, index) => ({
    name,
    store,
    local,
    costs: costs[index] ?? [],
    loaded: loaded[index],
  }));
  return [{ name: 'Node alone', store: undefined, costs: nodeCosts, loaded: undefined }, ...ours];
}

export function startVerdicts(starts: readonly StartRuns[]): Verdict[] {
  return starts.flatMap((start): Verdict[] => {
    const { name, store, costs, loaded } = start;
    if (loaded === undefined) return [];
    const foreign = [...new Set([...loaded.stores, ...loaded.sdks])].filter((each) => each !== store);
    const others = foreign.length > 0 ? ` (${foreign.join(', ')})` : '';
    const what = store === undefined ? 'adapters and SDKs loaded' : 'adapters and SDKs loaded beside its own';
    const loads = { what: `${name}: ${what}${others}`, values: [foreign.length], wanted: { atMost: 0 } };
    if (store !== undefined) return [loads, ...againstLocal(start, starts)];
    const wallMs = costs.map((cost) => cost.wallMs);
    return [{ what: `${name}: wall time, ms`, values: wallMs, wanted: { atMost: IDLE_MS_MAX } }, loads];
  });
}

/** Both are measured in each round, so that a busy machine slows both. */
function againstLocal({ name, local, costs }: StartRuns, starts: readonly StartRuns[]): Verdict[] {
  const ofLocal = starts.find((start) => start.name === local)?.costs;
  if (ofLocal === undefined) return [];
  const ratio = (what: string, of: (cost: ProcessCost) => number): Verdict => ({
    what: `${name}: ${what} / ${local}`,
    values: ratios(costs.map(of), ofLocal.map(of)),
    wanted: { atMost: OF_LOCAL_MAX },
  });
  return [
    ratio('CPU', ({ userMs, systemMs }) => userMs + systemMs),
    ratio('wall time', ({ wallMs }) => wallMs),
  ];
}

function tableOf(starts: readonly StartRuns[]): string {
  const rows = starts.map(({ name, costs, loaded }) => [
    name,
    spread(
      costs.map(({ wallMs }) => wallMs),
      0,
    ),
    spread(
      costs.map(({ userMs, systemMs }) => userMs + systemMs),
      0,
    ),
    spread(
      costs.map(({ peakRssBytes }) => peakRssBytes / MIB),
      0,
    ),
    loaded === undefined ? '' : String(loaded.packages.length),
    loaded?.sdks.join(', ') ?? '',
  ]);
  const head = ['what', 'wall ms', 'CPU ms', 'peak RSS MiB', 'packages from registries', 'SDK of'];
  return markdownTable(head, rows);
}

function chartOf(starts: readonly StartRuns[]): string {
  const panel = (title: string, value: (cost: ProcessCost) => number) => ({
    title,
    bars: starts.map(({ name, costs, loaded }) => ({
      label: name,
      ...summarize(costs.map(value)),
      isOurs: loaded !== undefined,
    })),
  });
  const wall = panel('wall time, ms', ({ wallMs }) => wallMs);
  const cpu = panel('CPU, ms', ({ userMs, systemMs }) => userMs + systemMs);
  return barChart({
    title: 'Start of the command line, the question for the latest checkpoint, and a small save',
    note: 'median and range; shorter is better',
    rows: [[wall, cpu]],
  });
}
