import { readFile } from 'node:fs/promises';
import { CheckpointError, isStopOf } from '@holdfast/core/contract';
import type { RunSummary } from '@holdfast/fleet';
import type { Call, Command, CommandResult } from '../command.ts';
import { maxAge } from '../common-options.ts';
import { formatPlural, formatRoughDuration, formatTime, printable } from '../format.ts';
import { JsonRows, jsonTime } from '../json.ts';
import { LOOK_TIMEOUT_MS } from '../open-run.ts';
import { flag, value, valueList } from '../option.ts';
import { runsAtOnce, takePlaces } from '../runs/places.ts';
import { type Prices, parsePrices } from '../runs/prices.ts';
import { jsonRun } from '../runs/runs-json.ts';
import { runsLines } from '../runs/runs-text.ts';
import { lateness, ORDERS, STATES, selectRuns, type Wanted } from '../runs/select-runs.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween, parseChoice, parsePath } from '../values.ts';
import { watchElapsed } from '../watch-elapsed.ts';

const INTERVAL_MS = 10_000;
/** Late runs that a message names. */
const NAMED_MAX = 10;

const state = valueList(
  '--state <state>',
  'only runs in this state: ok, empty, damaged, denied or unreachable; may be repeated',
  parseChoice(STATES),
);
const name = value('--name <text>', 'only runs whose path holds this text', (text) => text);
const sort = value(
  '--sort <by>',
  'name (the default), age, stored, cost or attempts; the largest first',
  parseChoice(ORDERS),
  ORDERS,
);
const saves = flag('--saves', 'also show saves in progress, and who is missing; more requests for each run');
const prices = value(
  '--prices <file>',
  'JSON with prices of stored bytes by prefix of the URI: adds a column of cost',
  parsePath,
);
const watch = flag('--watch', 'show the runs again and again, until Ctrl-C');
const interval = value(
  '--interval <duration>',
  'with --watch: how often to look; default 10s',
  durationBetween(1000, 24 * 3600_000),
);

export const runs: Command = {
  name: 'runs',
  group: 'Look',
  summary: 'List the runs below a place: latest version, age, size, health',
  description:
    'Changes nothing, and lists no payload: two or three small requests for each run. ' +
    'A run that cannot be read is shown with its error, and "?" means that a value is not known.\n' +
    'ATTEMPTS and FENCES are those of the last day. Ages are by the clock of the store.\n' +
    '--max-age: exit status 1 if the latest checkpoint of a run is older, or if that is not known.',
  operands: 'URI [URI...]',
  options: [maxAge, state, name, sort, saves, prices, watch, interval, runsAtOnce],
  examples: [
    'holdfast runs "file://$PWD" --sort age',
    'holdfast runs s3://bucket/team s3://bucket/other --max-age 2h --json',
  ],
  run: runRuns,
};

interface Request extends Wanted {
  readonly uris: readonly string[];
  readonly maxAgeMs: number | undefined;
}

async function runRuns(call: Call): Promise<CommandResult> {
  const request = await requestOf(call);
  if (call.get(watch) === true) return watchRuns(call, request);
  void watchElapsed(call, 'looking for runs');
  const found = await findRuns(call, request);
  return resultOf(call, request, found);
}

async function requestOf(call: Call): Promise<Request> {
  const uris = takePlaces(call);
  const priceFile = call.get(prices);
  const order = call.get(sort) ?? 'name';
  if (order === 'cost' && priceFile === undefined)
    throw usageError('--sort cost needs --prices', ['the file says what stored bytes cost']);
  if (call.get(interval) !== undefined && call.get(watch) !== true)
    throw usageError('--interval needs --watch', ['without it, the runs are shown once']);
  return {
    uris,
    maxAgeMs: call.get(maxAge),
    states: call.get(state) ?? [],
    nameText: call.get(name) ?? '',
    order,
    prices: priceFile === undefined ? null : await readPrices(priceFile),
  };
}

async function readPrices(path: string): Promise<Prices> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException;
    throw new CheckpointError('InvalidConfig', `the price file ${path} cannot be read: ${code}`, {
      context: { path },
      cause,
    });
  }
  return parsePrices(text, path);
}

async function findRuns(call: Call, { uris }: Request): Promise<RunSummary[]> {
  // Loaded here, so that other commands do not wait for it.
  const { fleetOf } = await import('@holdfast/fleet');
  const found: RunSummary[] = [];
  const options = {
    signal: call.signal,
    env: call.env,
    clock: call.clock,
    concurrency: call.get(runsAtOnce),
    runTimeoutMs: LOOK_TIMEOUT_MS,
    findVerification: true,
    listSaves: call.get(saves),
  };
  for await (const run of fleetOf(uris, options)) found.push(run);
  if (found.length === 0) throw noRuns(uris);
  return found;
}

function noRuns(uris: readonly string[]): CheckpointError {
  // An accepted URI holds no secret.
  const where = uris.map(printable).join(', ');
  return new CheckpointError('NotFound', `no run at or below ${where}`, {
    context: { store: uris.join(', '), run: 'missing' },
  });
}

function resultOf(call: Call, request: Request, found: readonly RunSummary[]): CommandResult {
  const { uris, maxAgeMs } = request;
  const nowMs = call.clock.nowMs();
  const shown = selectRuns(found, request);
  const late =
    maxAgeMs === undefined
      ? null
      : shown.flatMap((run) => {
          const why = lateness(run, maxAgeMs, nowMs);
          return why === null ? [] : [{ run, why }];
        });
  if (late !== null && late.length > 0)
    call.messages.warn(lateText(late, shown.length, maxAgeMs ?? 0), { lateCount: late.length });
  return {
    text: linesOf(call, request, shown),
    json: {
      uris: [...uris],
      at: jsonTime(nowMs),
      runs: new JsonRows(() => shown.map((run) => jsonRun(run, request.prices))),
      late: late === null ? null : late.map(({ run, why }) => ({ uri: run.uri, reason: why })),
      ...(request.prices && { currency: request.prices.currency }),
    },
    exitCode: late === null || late.length === 0 ? 0 : 1,
  };
}

function linesOf(call: Call, { uris, prices: given }: Request, shown: readonly RunSummary[]) {
  const nowMs = call.clock.nowMs();
  const table = { nowMs, style: call.style, prices: given, hasPlaces: uris.length > 1 };
  return runsLines(shown, { ...table, hasSaves: call.get(saves) === true });
}

function lateText(
  late: readonly { readonly run: RunSummary; readonly why: string }[],
  count: number,
  maxAgeMs: number,
): string {
  const named = late.slice(0, NAMED_MAX).map(({ run, why }) => `${printable(run.uri)}: ${why}`);
  const more = late.length > NAMED_MAX ? `; and ${late.length - NAMED_MAX} more` : '';
  const limit = formatRoughDuration(maxAgeMs);
  return `holdfast: ${late.length} of ${formatPlural(count, 'run')} without a checkpoint in the last ${limit}: ${named.join('; ')}${more}`;
}

/** Until Ctrl-C. A look that fails is shown with its error; the next one may succeed. */
async function watchRuns(call: Call, request: Request): Promise<CommandResult> {
  let lines: readonly string[] = ['looking for runs'];
  let last: readonly RunSummary[] = [];
  let isDrawn = false;
  await call.reporter.watch({
    bars: (_, { rows }) => {
      isDrawn = true;
      return lines.slice(0, Math.max(1, rows - 1));
    },
    line: () => '',
  });
  try {
    for (;;) {
      const title = `${formatTime(call.clock.nowMs())}   every ${formatRoughDuration(call.get(interval) ?? INTERVAL_MS)}`;
      try {
        last = await findRuns(call, request);
        lines = [title, ...linesOf(call, request, selectRuns(last, request))];
      } catch (error) {
        if (isStopOf(error, call.signal) || !(error instanceof CheckpointError)) throw error;
        if (error.code === 'InvalidConfig' || error.code === 'InvalidArgument') throw error;
        lines = [title, `${error.message} (${error.code})`, ...lines.slice(1)];
      }
      if (!isDrawn) call.print(lines.join('\n'));
      await call.clock.sleep(call.get(interval) ?? INTERVAL_MS, call.signal);
    }
  } catch (error) {
    if (!call.signal.aborted) throw error;
    call.reporter.end();
    return resultOf(call, request, last);
  }
}
