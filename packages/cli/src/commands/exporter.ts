import { toCheckpointError } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import type { Exporter, ExporterOptions } from '../exporter/exporter.ts';
import { printable } from '../format.ts';
import { flag, value } from '../option.ts';
import { runsAtOnce, takePlaces } from '../runs/places.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween, parseWhole } from '../values.ts';

const PORT = 9432;
const INTERVAL_MS = 60_000;
const RUNS_MAX = 2000;

const port = value(
  '--port <n>',
  `port of 127.0.0.1; default ${PORT}; 0: any free one`,
  parseWhole(0, 65_535),
);
const interval = value(
  '--interval <duration>',
  'pause between two searches of a place; default 1m',
  durationBetween(1000, 24 * 3600_000),
);
const runsMax = value(
  '--runs-max <n>',
  `runs with metrics of their own; default ${RUNS_MAX}; the others are only counted`,
  parseWhole(1, 100_000),
);
const orphansEvery = value(
  '--orphans-every <duration>',
  'count the orphaned bytes of each run, again after this time, which lists all its objects; default: not counted',
  durationBetween(60_000, 30 * 24 * 3600_000),
);
const once = flag('--once', 'search once, print the metrics and end');

export const exporter: Command = {
  name: 'exporter',
  group: 'Look',
  summary: 'Serve metrics of the runs below a place, for Prometheus',
  description:
    'Serves http://127.0.0.1:PORT/metrics, and changes nothing. Each place is searched in the background: ' +
    'a slow store delays no scrape. When it serves, it prints a line of JSON. SIGTERM ends it.\n' +
    'docs/monitoring.md lists the metrics, and has alert rules and a dashboard.',
  endsQuietly: true,
  operands: 'URI [URI...]',
  options: [port, interval, runsMax, orphansEvery, once, runsAtOnce],
  examples: [
    'holdfast exporter s3://bucket/team --port 9432',
    'holdfast exporter "file://$PWD" --once > metrics.prom',
  ],
  run: runExporter,
};

async function runExporter(call: Call): Promise<CommandResult> {
  const uris = takePlaces(call);
  if (call.get(once) === true && (call.get(port) ?? call.get(interval)) !== undefined)
    throw usageError('--once takes neither --port nor --interval', ['it serves nothing']);
  const found = await openExporter(call, uris);
  if (call.get(once) !== true) return serve(call, uris, found);
  await found.refresh(call.signal);
  const text = found.text();
  return { text: text.trimEnd(), json: { uris: [...uris], metrics: text } };
}

async function openExporter(call: Call, uris: readonly string[]): Promise<Exporter> {
  // Loaded here, so that other commands do not wait for it.
  const [{ Exporter: Opened }, { openStore }] = await Promise.all([
    import('../exporter/exporter.ts'),
    import('@holdfast/stores'),
  ]);
  // A URI that is not accepted ends the command before it serves.
  for (const uri of uris) await (await openStore(uri, call.env)).close();
  return new Opened({
    uris,
    orphans: orphansOptions(call),
    intervalMs: call.get(interval) ?? INTERVAL_MS,
    runsMax: call.get(runsMax) ?? RUNS_MAX,
    programVersion: call.programVersion,
    fleet: { env: call.env, concurrency: call.get(runsAtOnce), findVerification: true, listSaves: true },
    clock: call.clock,
    onChange: (uri, problem) =>
      problem === null
        ? call.messages.note(`holdfast: ${printable(uri)} can be searched again`, { uri })
        : call.messages.warn(
            `holdfast: ${printable(uri)} cannot be searched: ${printable(problem.message)} (${problem.code})`,
            { uri, code: problem.code },
          ),
  });
}

/** `undefined`: they are not to be counted. */
function orphansOptions(call: Call): ExporterOptions['orphans'] {
  const everyMs = call.get(orphansEvery);
  if (everyMs === undefined) return undefined;
  return {
    everyMs,
    open: async (uri) => {
      const { openCheckpointManager } = await import('@holdfast/stores');
      // It reads no payload, so it needs no threads.
      return openCheckpointManager(uri, { env: call.env, settings: { workers: 0 } });
    },
    onFailure: (uri, error) => {
      const { code, message } = toCheckpointError(error);
      call.messages.warn(
        `holdfast: the orphaned bytes of ${printable(uri)} cannot be counted: ${printable(message)}`,
        { uri, code },
      );
    },
  };
}

async function serve(call: Call, uris: readonly string[], found: Exporter): Promise<CommandResult> {
  const { serveMetrics } = await import('../exporter/exporter.ts');
  const served = await serveMetrics(found, call.get(port) ?? PORT);
  call.print(JSON.stringify({ event: 'ready', url: served.url, pid: process.pid }));
  try {
    await found.run(call.signal);
  } catch (error) {
    if (!call.signal.aborted) throw error;
  } finally {
    await served.close();
  }
  return { text: '', json: { event: 'ended', url: served.url, uris: [...uris] } };
}
