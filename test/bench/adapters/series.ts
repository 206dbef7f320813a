/** The measured runs of one adapter. Clients take turns within each round. */

import { openStore } from '@holdfast/stores';
import type { DiscardServer } from '../discard/process.ts';
import { say } from '../options.ts';
import { measureProcess } from '../s3/process-cost.ts';
import { callCost } from '../s3/rounds.ts';
import { ACTIONS, type Action, type Adapter, CLIENTS, type Client, clientsOf, driverOf } from './adapters.ts';

/** One call in a separate process. */
export interface AdapterRun {
  readonly adapter: string;
  readonly client: Client;
  readonly action: Action;
  readonly round: number;
  readonly sizeBytes: number;
  /** Time of the call, without loading the program and filling the memory. */
  readonly callMs: number;
  readonly callCpuMs: number;
  readonly serverCpuMs: number;
  readonly connections: number;
  readonly requests: number;
  readonly checksumHeaders: readonly string[];
}

export interface AdapterFailure {
  readonly adapter: string;
  readonly client: Client;
  readonly message: string;
}

export interface AdapterSeries {
  readonly adapter: Adapter;
  readonly server: DiscardServer;
  readonly sizeBytes: number;
  readonly rounds: number;
  readonly hasSdk: boolean;
  readonly patternPath: string;
  /** A file of `sizeBytes` on tmpfs. */
  readonly filePath: string;
  /** A directory in which a client may keep its own files. */
  readonly home: string;
  /** The directory of the installed S3 peers. */
  readonly modules: string;
  readonly fromSources: boolean;
}

/**
 * In each round every client performs all its actions, uploads first. Another client begins each
 * round. One upload by Holdfast before the first round is not counted, because it is the server's
 * first request. A client that fails takes no further part.
 */
export async function runAdapter(
  series: AdapterSeries,
): Promise<{ runs: AdapterRun[]; failures: AdapterFailure[] }> {
  const runs: AdapterRun[] = [];
  const failures: AdapterFailure[] = [];
  const attempt = async (client: Client, work: () => Promise<unknown>) => {
    try {
      await work();
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      say(`${series.adapter.name}, ${client}: FAILED, left out from here on: ${message}`);
      failures.push({ adapter: series.adapter.name, client, message });
    }
  };
  const concurrency = await concurrencyOf(series);
  await attempt('holdfast', () =>
    runOne(series, { client: 'holdfast', action: 'upload', round: -1, concurrency }),
  );
  const present = CLIENTS.filter((client) => client !== 'SDK' || series.hasSdk);
  for (let round = 0; round < series.rounds; round++) {
    for (let turn = 0; turn < present.length; turn++) {
      const client = present[(round + turn) % present.length] as Client;
      if (failures.some((failure) => failure.client === client)) continue;
      await attempt(client, async () => {
        for (const action of ACTIONS)
          if (clientsOf(series.adapter, action).includes(client))
            runs.push(await runOne(series, { client, action, round, concurrency }));
      });
    }
  }
  return { runs, failures };
}

/** The number of parallel requests that the adapter itself chooses. */
async function concurrencyOf({ adapter, server }: AdapterSeries): Promise<number> {
  const store = await openStore(adapter.uri(server.endpoint, 'none'), adapter.env);
  await store.close();
  return store.capabilities.preferredPartConcurrency;
}

interface OneRun {
  readonly client: Client;
  readonly action: Action;
  readonly round: number;
  readonly concurrency: number;
}

async function runOne(series: AdapterSeries, one: OneRun): Promise<AdapterRun> {
  const { adapter, server, sizeBytes } = series;
  const { client, action, round } = one;
  await server.counts();
  const serverCpuMs = server.cpuMs();
  const { stdout } = await measureProcess({
    program: process.execPath,
    args: [
      ...(series.fromSources ? ['--conditions=holdfast-source'] : []),
      driverOf(adapter, client),
      JSON.stringify(jobOf(series, one)),
    ],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: series.home,
      HOLDFAST_BENCH_MODULES: series.modules,
      ...adapter.env,
    },
  });
  const { callMs, callCpuMs } = callCost(stdout);
  if (callMs === null || callCpuMs === null) throw new Error(`the driver told no cost: ${stdout}`);
  say(
    `${round < 0 ? 'warm-up' : `round ${round + 1}`}, ${adapter.name}, ${action}, ${client}: ${(callMs / 1000).toFixed(2)} s, cpu ${(callCpuMs / 1000).toFixed(2)} s`,
  );
  return {
    adapter: adapter.name,
    client,
    action,
    round,
    sizeBytes,
    callMs,
    callCpuMs,
    serverCpuMs: server.cpuMs() - serverCpuMs,
    ...(await server.counts()),
  };
}

/**
 * The single argument of a driver. Each size, client and round has its own objects. Downloads use
 * the uploaded ones.
 */
function jobOf(
  { adapter, server, sizeBytes, patternPath, filePath }: AdapterSeries,
  { action, round, concurrency }: OneRun,
): object {
  const { endpoint } = server;
  const run = `${sizeBytes}-${round}${action === 'upload of a file' ? '-file' : ''}`;
  return {
    action,
    sizeBytes,
    patternPath,
    filePath,
    concurrency,
    uri: adapter.uri(endpoint, `run-${run}`),
    endpoint: adapter.sdkEndpoint(endpoint),
    bucket: adapter.bucket,
    sdkName: `sdk/${run}`,
    rawUrl: `${endpoint}${adapter.rawPath}/${run}`,
    rawHeaders: adapter.rawHeaders,
  };
}
