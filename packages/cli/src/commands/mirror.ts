import {
  isCheckpointError,
  type MirrorOptions,
  type MirrorResult,
  type ProgressEvent,
  WATCH_INTERVAL_MS_MAX,
  WATCH_INTERVAL_MS_MIN,
} from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, limitRate, workers } from '../common-options.ts';
import { formatBytes, formatCount, formatPlural, printable } from '../format.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeOperands } from '../operands.ts';
import { flag, value, valueList } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween, parseVersion } from '../values.ts';

const WATCH_INTERVAL_MS = 10_000;

const version = valueList('--version <v>', 'only this version; may be repeated', parseVersion);
const since = value('--since <v>', 'only this version and higher ones', parseVersion);
const latest = flag('--latest', 'only the version that a restart of FROM would load');
const watch = flag('--watch', 'continue until Ctrl-C: also copy what is committed from now on');
const interval = value(
  '--interval <duration>',
  'how often --watch looks, such as 1m; default 10s',
  durationBetween(WATCH_INTERVAL_MS_MIN, WATCH_INTERVAL_MS_MAX),
);
const skipCorrupt = flag(
  '--skip-corrupt',
  'skip versions that are damaged in FROM instead of stopping there',
);

export const mirror: Command = {
  name: 'mirror',
  group: 'Save and restore',
  summary: 'Copy the checkpoints of a run to another place, every byte verified',
  description:
    'Copies the versions that TO does not have yet, lowest first. TO is a separate run, and complete at every moment.\n' +
    'You can stop it at any time, and run it again to continue. It takes over TO from any process that writes there.',
  operands: 'FROM TO',
  options: [version, since, latest, watch, interval, skipCorrupt, concurrency, workers, buffer, limitRate],
  examples: [
    'holdfast mirror "file://$PWD/run" "file://$PWD/copy"',
    'holdfast mirror "file://$PWD/run" "file://$PWD/best" --latest',
    'holdfast mirror "file://$PWD/run" s3://backup/run --watch --interval 1m',
  ],
  isSilentWhenQuiet: true,
  run: runMirror,
};

async function runMirror(call: Call): Promise<CommandResult> {
  const [from = '', to = ''] = takeOperands(call.command, call.operands, ['FROM', 'TO']);
  if (from === to) throw usageError('FROM and TO are the same', ['a mirror is a run at another place']);
  const options = optionsOf(call);
  const beganMs = call.clock.monotonicMs();
  return withRun(call, { uri: from, isPatient: true }, async (source) => {
    const shownFrom = call.subject.uri as string;
    return withRun(call, { uri: to, isPatient: true }, async (target) => {
      const ends = { from: shownFrom, to: call.subject.uri as string };
      await call.reporter.begin({ verb: 'copied', headline: (event) => headline(event, ends) });
      const result = await knowingWhere(call, ends, () =>
        target.admin.mirrorFrom(source, { ...options, onProgress: progressOf(call) }),
      );
      return describe(result, ends, call, call.clock.monotonicMs() - beganMs);
    });
  });
}

/** The two URIs in a form that may be shown. */
interface Ends {
  readonly from: string;
  readonly to: string;
}

function optionsOf(call: Call): MirrorOptions {
  const given = [version, since, latest].filter((option) => call.get<unknown>(option) !== undefined);
  if (given.length > 1) {
    const names = given.map(({ name }) => `--${name}`).join(' and ');
    throw usageError(`${names} cannot be combined`, ['give one of them']);
  }
  const isWatching = call.get(watch) === true;
  if (isWatching && call.get(version) !== undefined) {
    throw usageError('--watch and --version cannot be combined', [
      'pass --since instead, which also copies what is committed later',
    ]);
  }
  return {
    versions: call.get(version),
    since: call.get(since),
    latest: call.get(latest),
    onCorrupt: call.get(skipCorrupt) ? 'skip' : 'fail',
    watchIntervalMs: isWatching ? (call.get(interval) ?? WATCH_INTERVAL_MS) : undefined,
    signal: call.signal,
  };
}

/** Adds the run that an error concerns, so that the advice names it. */
async function knowingWhere<T>(call: Call, ends: Ends, mirroring: () => Promise<T>): Promise<T> {
  try {
    return await mirroring();
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) call.subject.uri = ends.from;
    throw error;
  }
}

/** Reports each version as soon as it is copied: a mirror may take days, or never end. */
function progressOf(call: Call): (event: ProgressEvent) => void {
  let planned: Extract<ProgressEvent, { type: 'planned' }> | undefined;
  let beganMs = 0;
  return (event) => {
    call.reporter.onProgress(event);
    if (event.type === 'planned') {
      planned = event;
      beganMs = call.clock.monotonicMs();
    }
    if (event.type === 'skipped') {
      const head = `${call.style('yellow', 'skipped')}   version ${event.version}`;
      call.print(`${head}   ${printable(event.reason)}`);
    }
    if (event.type === 'committed' && planned !== undefined) {
      const size = `${formatBytes(planned.sizeBytes)} in ${formatPlural(planned.fileCount, 'file')}`;
      const rate = elapsedAndRate(call.clock.monotonicMs() - beganMs, planned.sizeBytes);
      const head = `${call.style('green', 'copied')}    version ${planned.version}`;
      call.print([head, size, ...rate].join('   '));
    }
  };
}

function headline(event: ProgressEvent, { from, to }: Ends): string | null {
  if (event.type !== 'planned') return null;
  const what = `${formatPlural(event.fileCount, 'file')}   ${formatBytes(event.sizeBytes)}`;
  return `version ${event.version} of ${from} → ${to}   ${what}`;
}

function describe(result: MirrorResult, ends: Ends, call: Call, durationMs: number): CommandResult {
  const { copied, present, annotated, skipped } = result;
  const sizeBytes = copied.reduce((sum, each) => sum + each.sizeBytes, 0);
  const reusedBytes = copied.reduce((sum, each) => sum + each.reusedBytes, 0);
  const text = [
    `${call.style('green', 'mirrored')}  ${formatPlural(copied.length, 'version')}`,
    ...(copied.length > 0 ? [formatBytes(sizeBytes), ...elapsedAndRate(durationMs, sizeBytes)] : []),
    ...(reusedBytes > 0 ? [`${formatBytes(reusedBytes)} already sent`] : []),
    ...(present.length > 0 ? [`${formatCount(present.length)} already there`] : []),
    ...(annotated.length > 0 ? [`${formatCount(annotated.length)} annotated`] : []),
    ...(skipped.length > 0 ? [`${formatCount(skipped.length)} skipped`] : []),
  ];
  return {
    text: text.join('   '),
    json: {
      ...ends,
      copied: copied.map((each) => ({
        version: jsonVersion(each.version),
        id: jsonId(each.id),
        sizeBytes: each.sizeBytes,
        fileCount: each.fileCount,
        reusedBytes: each.reusedBytes,
      })),
      present: present.map(jsonVersion),
      annotated: annotated.map(jsonVersion),
      skipped: skipped.map((each) => ({ version: jsonVersion(each.version), reason: each.reason })),
      sizeBytes,
      durationMs: Math.round(durationMs),
    },
  };
}
