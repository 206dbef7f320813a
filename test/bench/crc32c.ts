/** `bench crc32c`: the native code for CRC32C beside that of packages, in CPU time. */

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
// @boundaries-ignore packing compiles the code
import { compiledCode } from '../../scripts/pack/native-code.ts';
import { testConfig } from '../servers/config.ts';
import { positive, say } from './options.ts';
import { isMet, machineText, markdownTable, publish, ratios, type Verdict, verdictTable } from './results.ts';
import { installNpm } from './s3/install.ts';
import { runToEnd } from './s3/process-cost.ts';
import { spread } from './statistics.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DRIVER = fileURLToPath(new URL('peers/crc32c-driver.mjs', import.meta.url));
const PEERS = { 'aws-crt': '1.33.2', 'hash-wasm': '4.13.0' };
const IN_USE_BEFORE = '@node-rs/crc32';
/** At most this share of the CPU time of the package of npm. */
const SHARE_MAX = 0.6;

interface Times {
  readonly loadS: number;
  readonly cachedS: number;
  readonly outsideS: number;
}

interface Implementation {
  readonly name: string;
  /** Its module is found from here. */
  readonly directory: string;
  readonly times: Times[];
}

async function implementations(installsPeers: boolean): Promise<Implementation[]> {
  const own = await compiledCode(ROOT);
  const file = join(own, `crc32c-${process.platform}-${process.arch}.node`);
  const { kernels } = createRequire(import.meta.url)(file) as { kernels: Record<string, unknown> };
  const modules = join(testConfig(process.env).cacheDirectory, 'crc32c-peers');
  if (installsPeers) installNpm(modules, PEERS);
  const peers = Object.keys(PEERS).filter((name) => existsSync(join(modules, 'node_modules', name)));
  if (peers.length === 0) say('without --install-peers other packages are left out');
  return [
    ...Object.keys(kernels).map((name) => ({ name: `holdfast, ${name}`, directory: own })),
    { name: IN_USE_BEFORE, directory: join(ROOT, 'packages', 'core') },
    ...peers.map((name) => ({ name, directory: modules })),
  ].map((each) => ({ ...each, times: [] }));
}

/** Prints a table. Resolves to false if the engine's code is not fast enough. */
export async function benchCrc32c(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      out: { type: 'string' },
      'install-peers': { type: 'boolean', default: false },
    },
  });
  const all = await implementations(values['install-peers']);
  for (let round = 0; round < positive('--rounds', values.rounds); round++) {
    for (const { name, directory, times } of all) {
      const command = { program: process.execPath, args: [DRIVER, directory, name], env: {} };
      times.push(JSON.parse((await runToEnd(command)).stdout) as Times);
    }
    say(`round ${round + 1}`);
  }
  const verdicts = verdictsOf(all);
  const markdown = `${machineText()}\n\n${tableOf(all)}\n\n${verdictTable(verdicts)}\n`;
  const json = { machine: machineText(), implementations: all.map(({ name, times }) => ({ name, times })) };
  publish('crc32c', { markdown, json, charts: {} }, values.out);
  return verdicts.every(isMet);
}

function tableOf(all: readonly Implementation[]): string {
  const rows = all.map(({ name, times }) => [
    name,
    spread(times.map(({ cachedS }) => cachedS)),
    spread(times.map(({ outsideS }) => outsideS)),
    spread(
      times.map(({ loadS }) => loadS * 1000),
      1,
    ),
  ]);
  return markdownTable(['CRC32C by', 'in the cache, s/GiB', 'outside, s/GiB', 'CPU to load, ms'], rows);
}

/** Both are measured in each round, so that a busy machine slows both. */
function verdictsOf(all: readonly Implementation[]): Verdict[] {
  const outside = (name: string) =>
    all.find((each) => each.name === name)?.times.map(({ outsideS }) => outsideS) ?? [];
  return all
    .filter(({ name }) => name.startsWith('holdfast'))
    .map(({ name }) => ({
      what: `outside of the cache, ${name} / ${IN_USE_BEFORE}`,
      values: ratios(outside(name), outside(IN_USE_BEFORE)),
      wanted: { atMost: SHARE_MAX },
    }));
}
