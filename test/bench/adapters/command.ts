/**
 * `bench adapters`: compares every cloud adapter with a minimal `node:http` client and with the
 * provider's own SDK.
 */

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../../scripts/steps.ts';
import { testConfig } from '../../servers/config.ts';
import { startDiscardServer } from '../discard/process.ts';
import { chosen, positive, say } from '../options.ts';
import { isMet, machineText, publish } from '../results.ts';
import { assertRoom } from '../room.ts';
import { placesIn } from '../s3/peers.ts';
import { makePattern, parseShape, patternPieces, sizeText } from '../s3/shapes.ts';
import { ADAPTERS, type Adapter, isSdkInstalled } from './adapters.ts';
import { type AdapterReport, chartsOf, markdownOf, verdictsOf } from './report.ts';
import { type AdapterFailure, type AdapterRun, type AdapterSeries, runAdapter } from './series.ts';

interface Options {
  readonly rounds: number;
  readonly sizes: readonly number[];
  readonly adapters: readonly Adapter[];
  readonly out: string | undefined;
  readonly fromSources: boolean;
}

function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      sizes: { type: 'string', default: '1GiB' },
      adapters: { type: 'string', default: ADAPTERS.map(({ name }) => name).join() },
      out: { type: 'string' },
      'from-sources': { type: 'boolean', default: false },
    },
  });
  const known = ADAPTERS.map(({ name }) => name);
  const names = chosen('--adapters', values.adapters, known);
  return {
    rounds: Math.ceil(positive('--rounds', values.rounds)),
    sizes: values.sizes.split(',').map((size) => parseShape(`1x${size}`).fileBytes),
    adapters: ADAPTERS.filter(({ name }) => names.includes(name)),
    out: values.out,
    fromSources: values['from-sources'],
  };
}

/**
 * Prints tables and writes `adapters.json`, `.md` and charts. Resolves to false if a client failed
 * or missed a target.
 */
export async function benchAdapters(args: readonly string[]): Promise<boolean> {
  const options = parseOptions(args);
  // Measure the compiled command that users get, because type stripping costs time.
  if (!options.fromSources && !runStep(BUILD)) throw new Error('the build failed; its own words are above');
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  const memoryDirectory = mkdtempSync('/dev/shm/holdfast-bench-');
  const remove = () => {
    rmSync(directory, { recursive: true, force: true });
    rmSync(memoryDirectory, { recursive: true, force: true });
  };
  process.on('exit', remove);
  try {
    const { runs, failures } = await measureAll(options, { directory, memoryDirectory });
    const { adapters, sizes, rounds } = options;
    const conditions = `${machineText()}; discarding server, same machine; ${rounds} rounds, median [min–max], ratios of each round`;
    const report: AdapterReport = { conditions, adapters, sizes, runs, failures };
    const json = { conditions, verdicts: verdictsOf(report), runs, failures };
    publish('adapters', { markdown: markdownOf(report), json, charts: chartsOf(report) }, options.out);
    return failures.length === 0 && verdictsOf(report).every(isMet);
  } finally {
    remove();
    process.off('exit', remove);
  }
}

async function measureAll(
  { adapters, sizes, rounds, fromSources }: Options,
  { directory, memoryDirectory }: { directory: string; memoryDirectory: string },
): Promise<{ runs: AdapterRun[]; failures: AdapterFailure[] }> {
  const pattern = makePattern();
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, pattern);
  const { modules } = placesIn(testConfig(process.env).cacheDirectory, fromSources);
  const results = { runs: [] as AdapterRun[], failures: [] as AdapterFailure[] };
  for (const sizeBytes of sizes) {
    // Room for the file and for a client's memory: the source, and the copy that an SDK makes.
    assertRoom(sizeText(sizeBytes), memoryDirectory, 4 * sizeBytes);
    const filePath = join(memoryDirectory, 'file');
    writeFile(filePath, pattern, sizeBytes);
    for (const adapter of adapters) {
      const hasSdk = isSdkInstalled(adapter, modules);
      if (!hasSdk) say(`the SDK of ${adapter.name} is left out: npm run bench -- s3 --install-peers`);
      const server = await startDiscardServer(adapter.name, patternPath);
      const common = { adapter, server, sizeBytes, rounds, hasSdk, patternPath, filePath };
      const series: AdapterSeries = { ...common, home: directory, modules, fromSources };
      try {
        const { runs, failures } = await runAdapter(series);
        results.runs.push(...runs);
        results.failures.push(...failures);
      } finally {
        await server.close();
      }
    }
  }
  return results;
}

function writeFile(path: string, pattern: Buffer, sizeBytes: number): void {
  const file = openSync(path, 'w');
  for (const piece of patternPieces(pattern, { rotationBytes: 0, startBytes: 0, endBytes: sizeBytes }))
    writeSync(file, piece);
  closeSync(file);
}
