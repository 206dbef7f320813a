/**
 * `bench torch`: two ranks of PyTorch save and load sharded tensors by DCP, with Holdfast and with
 * other tools in turn, on the same MinIO.
 */

import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import { peersProgram } from '../python/peers-program.ts';
import { CLIENT, startAgent } from './agent-start.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import { runToEnd } from './s3/process-cost.ts';
import { parseShape } from './s3/shapes.ts';
import { clientEnv, minioTarget } from './s3/targets.ts';
import { spread } from './statistics.ts';

const PROGRAM = fileURLToPath(new URL('../peers/saves.py', import.meta.url));
const OWN = 'Holdfast';
/** As `saves.py` has it. */
const WARM_UP_ROUNDS = 2;

interface Took {
  readonly seconds: number;
  readonly cpu: number;
  readonly ownCpu: number;
}

/** What `saves.py` writes for one rank. */
export interface RankRound {
  readonly tool: string;
  /** `copy`: the same bytes into warm memory. `blocked` and `done`: of a save in the background. */
  readonly copy: Took;
  /** What DCP does itself in a save. */
  readonly plan: Took;
  readonly save: Took;
  readonly blocked: Took;
  readonly done: Took;
  readonly load: Took;
  /** Speed of the training beside the save, as a share of its speed before. */
  readonly loop: number;
}

/** Both ranks together. */
export interface TorchRound {
  /** With the planning of DCP. */
  readonly copySeconds: number;
  readonly blockedSeconds: number;
  /** Per GiB, of the ranks alone. */
  readonly blockedCpu: number;
  readonly loop: number;
  readonly doneSeconds: number;
  readonly saveSeconds: number;
  /** Per GiB, of the ranks and the agent. */
  readonly saveCpu: number;
  readonly loadSeconds: number;
  readonly loadCpu: number;
}

export type TorchRounds = ReadonlyMap<string, readonly TorchRound[]>;

/** Prints tables and writes `torch.json` and `.md`. Resolves to false if a target was missed. */
export async function benchTorch(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '512MiB' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  if (!values['from-sources'] && !runStep(BUILD))
    throw new Error('the build failed; its own words are above');
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const sizeBytes = parseShape(`1x${values.size}`).fileBytes;
  process.env['HOLDFAST_REQUIRE'] ??= 'frameworks';
  const python = await peersProgram();
  return inNewDirectory(values.dir, async (directory) => {
    // Versions of Holdfast stay, two of each round. Those of one round of another tool are beside.
    assertRoom(values.size, directory, (2 * (rounds + WARM_UP_ROUNDS) + 8) * sizeBytes);
    const lines = await measure({ python, directory, sizeBytes, rounds });
    const found = roundsOf(lines, sizeBytes);
    const conditions = `${machineText()}; 2 gloo ranks, ${values.size} of DTensors together, MinIO on the same machine; ${rounds} rounds, median [min–max]`;
    const verdicts = torchVerdicts(found);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(found)].join('\n\n')}\n`;
    const json = { conditions, rounds: Object.fromEntries(found), verdicts };
    publish('torch', { markdown, json, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

interface Setting {
  readonly python: string;
  readonly directory: string;
  readonly sizeBytes: number;
  readonly rounds: number;
}

async function measure({ python, directory, sizeBytes, rounds }: Setting): Promise<RankRound[][]> {
  const target = await minioTarget({ directory: join(directory, 'minio'), tls: false });
  const socket = join(directory, 'run', 'agent.sock');
  const env = clientEnv(target, directory);
  const agent = await startAgent(socket, env);
  try {
    const { endpoint, region } = target.access;
    const uri = `s3://${target.bucket}/torch?endpoint=${encodeURIComponent(endpoint)}&region=${region}`;
    const own = { PYTHONPATH: CLIENT, HOLDFAST_AGENT: socket, AGENT_PID: String(agent.pid) };
    const others = { OMP_NUM_THREADS: '1', GLOO_SOCKET_IFNAME: 'lo', TMPDIR: directory };
    const path = join(directory, 'rounds');
    const args = ['-B', '-W', 'ignore', PROGRAM, uri, String(sizeBytes), String(rounds), path];
    await runToEnd({ program: python, args, env: { ...env, ...own, ...others } });
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as RankRound[]);
  } finally {
    await agent.end();
    await target.close();
  }
}

/** The slowest rank, and the processor time of all ranks. */
export function roundsOf(lines: readonly (readonly RankRound[])[], sizeBytes: number): TorchRounds {
  const gib = sizeBytes / 2 ** 30;
  const tools = Map.groupBy(lines, ([first]) => first?.tool ?? '');
  const round = (ranks: readonly RankRound[]): TorchRound => {
    const slowest = (of: (rank: RankRound) => number) => Math.max(...ranks.map(of));
    const perGib = (of: (rank: RankRound) => number) => ranks.reduce((sum, rank) => sum + of(rank), 0) / gib;
    return {
      copySeconds: slowest(({ copy, plan }) => copy.seconds + plan.seconds),
      blockedSeconds: slowest(({ blocked }) => blocked.seconds),
      blockedCpu: perGib(({ blocked }) => blocked.ownCpu),
      loop: Math.min(...ranks.map(({ loop }) => loop)),
      doneSeconds: slowest(({ done }) => done.seconds),
      saveSeconds: slowest(({ save }) => save.seconds),
      saveCpu: perGib(({ save }) => save.cpu),
      loadSeconds: slowest(({ load }) => load.seconds),
      loadCpu: perGib(({ load }) => load.cpu),
    };
  };
  return new Map([...tools].map(([tool, each]) => [tool, each.map(round)]));
}

export function torchVerdicts(found: TorchRounds): Verdict[] {
  const own = found.get(OWN) ?? [];
  const of = (rounds: readonly TorchRound[], field: keyof TorchRound) => rounds.map((round) => round[field]);
  const blocked = of(own, 'blockedSeconds');
  const verdicts: Verdict[] = [
    { what: 'a rank is blocked by a save in the background, s', values: blocked, wanted: { atMost: 0.3 } },
    {
      what: 'the same / a plain copy into warm memory and the planning of DCP',
      values: ratios(blocked, of(own, 'copySeconds')),
      wanted: { atMost: 1.5 },
    },
    { what: 'CPU of the ranks in it, s/GiB', values: of(own, 'blockedCpu'), wanted: { atMost: 0.25 } },
    {
      what: 'speed of the training beside the save / before',
      values: of(own, 'loop'),
      wanted: { atLeast: 0.95 },
    },
  ];
  for (const [tool, rounds] of found) {
    if (tool === OWN) continue;
    const against = (what: string, field: keyof TorchRound) =>
      verdicts.push({
        what: `${what} / ${tool}`,
        values: ratios(of(own, field), of(rounds, field)),
        wanted: { atMost: 1 },
      });
    against('save to commit, time', 'saveSeconds');
    against('save to commit, CPU', 'saveCpu');
    against('load, time', 'loadSeconds');
    against('load, CPU', 'loadCpu');
  }
  return verdicts;
}

function tableOf(found: TorchRounds): string {
  const columns: readonly (readonly [head: string, field: keyof TorchRound])[] = [
    ['copy and plan s', 'copySeconds'],
    ['blocked s', 'blockedSeconds'],
    ['blocked CPU s/GiB', 'blockedCpu'],
    ['training beside / before', 'loop'],
    ['done s', 'doneSeconds'],
    ['save s', 'saveSeconds'],
    ['save CPU s/GiB', 'saveCpu'],
    ['load s', 'loadSeconds'],
    ['load CPU s/GiB', 'loadCpu'],
  ];
  const rows = [...found].map(([tool, rounds]) => [
    tool,
    ...columns.map(([, field]) => spread(rounds.map((round) => round[field]))),
  ]);
  return markdownTable(['tool', ...columns.map(([head]) => head)], rows);
}
