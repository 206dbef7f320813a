/**
 * `bench start`: measures how long the command line takes to start and to open a run in each store,
 * and which SDKs it loads.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { type LoadedModules, loadedModules } from '../e2e/loaded-modules.ts';
import { ADAPTERS } from './adapters/adapters.ts';
import { builtCli, type Cli, measureCommand } from './cli.ts';
import { type DiscardServer, startDiscardServer } from './discard/process.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';
import { barChart } from './s3/chart.ts';
import type { ProcessCost } from './s3/process-cost.ts';
import { MIB } from './s3/shapes.ts';
import { spread, summarize } from './statistics.ts';

const IDLE_MS_MAX = 150;

/** One command, and the modules that it may load. */
interface Start {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** The only adapter that the command may load. */
  readonly store: string | undefined;
}

export interface StartRuns extends Pick<Start, 'name' | 'store'> {
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
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  process.on('exit', remove);
  try {
    const starts = await measureStarts(cli, rounds, directory);
    const conditions = `${machineText()}; stores other than the local one at a discarding server, same machine; ${rounds} rounds, median [min–max]`;
    const markdown = `${[conditions, verdictTable(startVerdicts(starts)), tableOf(starts)].join('\n\n')}\n`;
    publish(
      'start',
      { markdown, json: { conditions, starts }, charts: { 'start.svg': chartOf(starts) } },
      values.out,
    );
    return startVerdicts(starts).every(isMet);
  } finally {
    remove();
    process.off('exit', remove);
  }
}

async function measureStarts(cli: Cli, rounds: number, directory: string): Promise<StartRuns[]> {
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, 'nothing large is saved');
  const servers: DiscardServer[] = [];
  try {
    const starts: Start[] = IDLE.map((name) => ({ name, args: [name], env: {}, store: undefined }));
    const local = pathToFileURL(join(directory, 'run')).href;
    starts.push({ name: 'latest file://', args: ['latest', local], env: {}, store: 'store-local' });
    for (const adapter of ADAPTERS) {
      const server = await startDiscardServer(adapter.name, patternPath);
      servers.push(server);
      const uri = adapter.uri(server.endpoint, 'run');
      const name = `latest ${uri.slice(0, uri.indexOf('//') + 2)}`;
      starts.push({ name, args: ['latest', uri], env: adapter.env, store: `store-${adapter.name}` });
    }
    return await runStarts(cli, { starts, rounds, directory });
  } finally {
    for (const server of servers) await server.close();
  }
}

const IDLE = ['--version', '--help'];
const NODE_ALONE = [process.execPath, '--eval', '0'];

async function runStarts(
  cli: Cli,
  { starts, rounds, directory }: { starts: readonly Start[]; rounds: number; directory: string },
): Promise<StartRuns[]> {
  // HOME is empty. It keeps compiled code, as between two calls of a user.
  const home = { HOME: directory, NODE_COMPILE_CACHE: join(directory, 'compiled') };
  const source = join(directory, 'source');
  mkdirSync(source);
  writeFileSync(join(source, 'a'), 'a');
  for (const { args, env, store } of starts)
    if (store !== undefined) await cli.run(['save', source, args[1] ?? ''], { ...home, ...env });
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
  const ours = starts.map(({ name, store }, index) => ({
    name,
    store,
    costs: costs[index] ?? [],
    loaded: loaded[index],
  }));
  return [{ name: 'Node alone', store: undefined, costs: nodeCosts, loaded: undefined }, ...ours];
}

export function startVerdicts(starts: readonly StartRuns[]): Verdict[] {
  return starts.flatMap(({ name, store, costs, loaded }): Verdict[] => {
    if (loaded === undefined) return [];
    const foreign = [...new Set([...loaded.stores, ...loaded.sdks])].filter((each) => each !== store);
    const others = foreign.length > 0 ? ` (${foreign.join(', ')})` : '';
    const what = store === undefined ? 'adapters and SDKs loaded' : 'adapters and SDKs loaded beside its own';
    const loads = { what: `${name}: ${what}${others}`, values: [foreign.length], wanted: { atMost: 0 } };
    if (store !== undefined) return [loads];
    const wallMs = costs.map((cost) => cost.wallMs);
    return [{ what: `${name}: wall time, ms`, values: wallMs, wanted: { atMost: IDLE_MS_MAX } }, loads];
  });
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
      label: name.replace('latest ', ''),
      ...summarize(costs.map(value)),
      isOurs: loaded !== undefined,
    })),
  });
  const wall = panel('wall time, ms', ({ wallMs }) => wallMs);
  const cpu = panel('CPU, ms', ({ userMs, systemMs }) => userMs + systemMs);
  return barChart({
    title: 'Start of the command line, and latest() of a run in each store',
    note: 'median and range; shorter is better',
    rows: [[wall, cpu]],
  });
}
