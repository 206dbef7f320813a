/**
 * `bench tensors`: `holdfast inspect` of a large checkpoint, and `holdfast export` of one in both
 * layouts, with the command as users get it. The tensors are holes in the files of a local run.
 */

import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { builtCli, type Cli } from './cli.ts';
import { writeHollowModel } from './hollow-model.ts';
import { inNewDirectory } from './in-new-directory.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';
import { assertRoom } from './room.ts';
import type { ProcessCost } from './s3/process-cost.ts';
import { MIB, parseShape } from './s3/shapes.ts';
import { spread } from './statistics.ts';

const INSPECT_MS_MAX = 1000;
const EXPORT_RSS_BYTES_MAX = 512 * MIB;
const FILE_BYTES = 5 * 1024 * MIB;
const TENSORS_IN_FILE = 40;
const LAYOUTS = ['safetensors', 'distcp'] as const;

export interface TensorsReport {
  readonly conditions: string;
  readonly inspect: readonly ProcessCost[];
  readonly exports: Readonly<Record<(typeof LAYOUTS)[number], readonly ProcessCost[]>>;
}

/** Prints tables and writes `tensors.json` and `.md`. Resolves to false if a target was missed. */
export async function benchTensors(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      size: { type: 'string', default: '100GiB' },
      'export-size': { type: 'string', default: '10GiB' },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const rounds = Math.ceil(positive('--rounds', values.rounds));
  const exportBytes = parseShape(`1x${values['export-size']}`).fileBytes;
  const cli = builtCli(values['from-sources']);
  return inNewDirectory(values.dir, async (directory) => {
    assertRoom(values['export-size'], directory, exportBytes);
    const bench = new Bench(cli, directory, rounds);
    const inspect = await bench.inspect(parseShape(`1x${values.size}`).fileBytes);
    const exports = await bench.export(exportBytes);
    const conditions = `${machineText()}; files of 5 GiB with ${TENSORS_IN_FILE} tensors on the local disk, tensors are holes; inspect of ${values.size}, export of ${values['export-size']}; ${rounds} rounds, median [min–max]`;
    const report: TensorsReport = { conditions, inspect, exports };
    const verdicts = tensorsVerdicts(report);
    const markdown = `${[conditions, verdictTable(verdicts), tableOf(report)].join('\n\n')}\n`;
    publish('tensors', { markdown, json: { ...report, verdicts }, charts: {} }, values.out);
    return verdicts.every(isMet);
  });
}

class Bench {
  readonly #cli: Cli;
  readonly #directory: string;
  readonly #rounds: number;
  /** It keeps compiled code, as between two calls of a user. */
  readonly #env: Readonly<Record<string, string>>;

  constructor(cli: Cli, directory: string, rounds: number) {
    this.#cli = cli;
    this.#directory = directory;
    this.#rounds = rounds;
    this.#env = { HOME: directory, NODE_COMPILE_CACHE: join(directory, 'compiled') };
  }

  async inspect(totalBytes: number): Promise<ProcessCost[]> {
    const uri = await this.#model('large', totalBytes);
    await this.#cli.run(['inspect', uri], this.#env);
    const costs: ProcessCost[] = [];
    for (let round = 0; round < this.#rounds; round++) {
      costs.push(await this.#cli.cost(['inspect', uri], this.#env));
      say(`inspect, round ${round + 1}`);
    }
    return costs;
  }

  async export(totalBytes: number): Promise<TensorsReport['exports']> {
    const uri = await this.#model('exported', totalBytes);
    const costs: { [layout in (typeof LAYOUTS)[number]]: ProcessCost[] } = { safetensors: [], distcp: [] };
    const to = join(this.#directory, 'model');
    for (let round = 0; round < this.#rounds; round++)
      for (const layout of round % 2 === 0 ? LAYOUTS : LAYOUTS.toReversed()) {
        costs[layout].push(await this.#cli.cost(['export', uri, to, '--layout', layout], this.#env));
        rmSync(to, { recursive: true });
        say(`export to ${layout}, round ${round + 1}`);
      }
    return costs;
  }

  #model(name: string, totalBytes: number): Promise<string> {
    const files = Math.ceil(totalBytes / FILE_BYTES);
    const model = { files, fileBytes: Math.floor(totalBytes / files), tensorsInFile: TENSORS_IN_FILE };
    return writeHollowModel(join(this.#directory, name), model);
  }
}

export function tensorsVerdicts({ inspect, exports }: TensorsReport): Verdict[] {
  return [
    {
      what: 'inspect, ms',
      values: inspect.map(({ wallMs }) => wallMs),
      wanted: { atMost: INSPECT_MS_MAX },
    },
    ...LAYOUTS.map((layout) => ({
      what: `peak RSS of export to ${layout}, MiB`,
      // A hard limit, so no round may exceed it.
      values: [Math.max(...exports[layout].map(({ peakRssBytes }) => peakRssBytes)) / MIB],
      wanted: { atMost: EXPORT_RSS_BYTES_MAX / MIB },
    })),
  ];
}

function tableOf({ inspect, exports }: TensorsReport): string {
  const rows = Object.entries({ inspect, ...exports }).map(([what, costs]) => [
    what,
    spread(
      costs.map(({ wallMs }) => wallMs / 1000),
      2,
    ),
    spread(
      costs.map(({ userMs, systemMs }) => (userMs + systemMs) / 1000),
      2,
    ),
    spread(
      costs.map(({ peakRssBytes }) => peakRssBytes / MIB),
      0,
    ),
  ]);
  return markdownTable(['what', 'wall s', 'cpu s', 'peak RSS MiB'], rows);
}
