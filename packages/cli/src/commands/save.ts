import { type Stats, statSync } from 'node:fs';
import { basename } from 'node:path';
import {
  CheckpointError,
  type ProgressEvent,
  type SaveOptions,
  type SaveResult,
} from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import {
  afterSigterm,
  buffer,
  concurrency,
  exclude,
  limitRate,
  links,
  meta,
  metric,
  timeout,
  version as versionOption,
  workers,
} from '../common-options.ts';
import { CONSISTENCY_OPTIONS, consistencyOf } from '../consistency-options.ts';
import { warnOfSuspect } from '../engine-log.ts';
import type { Job } from '../env.ts';
import {
  formatBytes,
  formatPlural,
  formatRoughDuration,
  formatWriters,
  printable,
  RETIRED,
} from '../format.ts';
import { JOB_OPTIONS, jobOf, VoidedWarnings } from '../job.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { takeUriLast } from '../operands.ts';
import { checked, flag, value, valueList } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import type { ProgressState } from '../progress/progress-state.ts';
import { RETENTION_OPTIONS, rulesToSet } from '../retention-options.ts';
import { usageError } from '../usage-error.ts';
import { pairsToRecord, parseChoice, parseGlob } from '../values.ts';

const version = {
  ...versionOption,
  help: 'the version, such as the step of the training; default: one above the highest',
};
const noWait = flag('--no-wait', 'deliver, and leave the commit to the writer that delivers last');
const dedupe = value(
  '--dedupe <how>',
  'auto (the default): files that stay unchanged are sent at most twice; off: all files are sent',
  parseChoice(['auto', 'off']),
  ['auto', 'off'],
);
const onStale = value(
  '--on-stale <what>',
  'what to do about files that seem unchanged since the last save: warn (the default), fail or off',
  parseChoice(['warn', 'fail', 'off']),
  ['warn', 'fail', 'off'],
);
const shouldChange = valueList(
  '--should-change <glob>',
  'files that training changes, such as "*.pt"; "!*.json" excludes; may be repeated; default: any file',
  parseGlob,
);

const force = flag('--force', 'begin a run even if runs lie below it, or it lies in another run');
export const save: Command = {
  name: 'save',
  group: 'Save and restore',
  summary: 'Save files as a checkpoint, all of them or none',
  description:
    'DIR: saves every file below it, and empty directories. FILE: saves it under its name, without the directory.\n' +
    'Each of several writers saves its own files with the same --version and --attempt; ' +
    'the checkpoint is committed once all have delivered. A writer without --attempt takes the run over.\n' +
    'A trainer that starts a command for each save must pass the same --life to all of them. Otherwise each command ' +
    'replaces the one before, and what that one delivered, but did not commit, is void.\n' +
    '--life parent: the life is the process that starts the command, by its id and start time (Linux).\n' +
    'Retention rules (--keep and those after it) become the rules of the run, for all its writers; they are applied ' +
    'after each commit, in the background.',
  operands: 'DIR|FILE... URI',
  options: [
    ...[version, ...JOB_OPTIONS, timeout, noWait, metric, meta],
    ...[exclude, links, dedupe, onStale, shouldChange, afterSigterm, force],
    ...CONSISTENCY_OPTIONS,
    ...RETENTION_OPTIONS,
    ...[concurrency, workers, buffer, limitRate],
  ],
  examples: [
    'holdfast save ./ckpt "file://$PWD/run"',
    'holdfast save ./ckpt "file://$PWD/run" --version 1200 --metric loss=2.131 --meta host="$(hostname)"',
    'holdfast save ./ckpt "file://$PWD/run" --keep 3 --keep-best loss:min:1',
    'for i in 0 1; do echo $i > part-$i; holdfast save part-$i "file://$PWD/pair" --version 1 --writer $i/2 --attempt a & done; wait',
  ],
  isSilentWhenQuiet: true,
  isOneDecision: true,
  run: runSave,
};

async function runSave(call: Call): Promise<CommandResult> {
  const { uri, rest, isUriFromEnvironment } = takeUriLast(
    call.command,
    call.operands,
    call.env,
    'DIR or FILE',
  );
  const job = savingJob(call);
  outlastSigterm(call);
  const rules = rulesToSet(call);
  const options = { ...saveOptions(call, job), ...sourcesOf(rest) };
  call.subject.path = rest[0] as string;
  call.subject.isLoneWriter = job.attempt === null;
  const voided = new VoidedWarnings(call);
  const beganMs = call.clock.monotonicMs();
  const mayShareItsPlace = call.get(force) === true;
  const result = await withRun(call, { uri, job, rules, mayShareItsPlace }, async (manager) => {
    if (isUriFromEnvironment) call.messages.detail(`run ${uri} from HOLDFAST_URI`);
    await call.reporter.begin({
      verb: 'saved',
      headline: (event, state) => (voided.take(event) ? null : headline(event, state, call)),
    });
    return manager.save({ ...options, signal: call.signal, onProgress: call.reporter.onProgress });
  });
  return describe(result, { job, voided }, call, call.clock.monotonicMs() - beganMs);
}

/**
 * With `--after-sigterm` the save continues after SIGTERM for the given time. A scheduler that ends
 * a job sends SIGTERM to all its processes and then waits, perhaps long enough for this save.
 */
function outlastSigterm(call: Call): void {
  const forMs = call.get(afterSigterm);
  if (forMs === undefined) return;
  const time = formatRoughDuration(forMs);
  call.outlastSigterm(forMs, `holdfast: SIGTERM: the save continues for up to ${time}; Ctrl-C ends it`);
}

function savingJob(call: Call): Job {
  const job = jobOf(call);
  const { index, count } = job.writer.value;
  if (count > 1 && call.get(version) === undefined) {
    throw usageError(`writer ${index} of ${count} needs --version`, [
      'only a single writer can take the next version: several writers could choose different ones',
      'pass the same --version in every writer, such as the step of the training',
    ]);
  }
  return job;
}

function saveOptions(call: Call, job: Job): SaveOptions {
  const given = call.get(version);
  if (given !== undefined) call.subject.version = given;
  return {
    version: given,
    writer: job.writer.value,
    timeoutMs: call.get(timeout),
    noWait: call.get(noWait),
    exclude: call.get(exclude),
    links: call.get(links),
    dedupe: call.get(dedupe),
    onStale: call.get(onStale),
    shouldChange: call.get(shouldChange),
    ...consistencyOf(call),
    metrics: checked('InvalidArgument', '--metric', () => pairsToRecord(call.get(metric) ?? [])),
    metadata: checked('InvalidArgument', '--meta', () => pairsToRecord(call.get(meta) ?? [])),
  };
}

/** One directory, or files by name. */
function sourcesOf(paths: readonly string[]): Pick<SaveOptions, 'dir' | 'files'> {
  const found = paths.map((path) => ({ path, stats: statOf(path) }));
  const directory = found.find(({ stats }) => stats.isDirectory());
  if (directory !== undefined) {
    if (found.length === 1) return { dir: directory.path };
    throw usageError(
      `${printable(directory.path)} is a directory, and ${formatPlural(found.length, 'source')} were given`,
      ['pass one directory, or any number of files'],
    );
  }
  const byName = new Map<string, string>();
  for (const { path } of found) {
    const name = basename(path);
    const other = byName.get(name);
    if (other !== undefined) {
      throw usageError(
        `two files have the same name, "${printable(name)}": ${printable(other)} and ${printable(path)}`,
        [
          'a file is saved under its own name, without the directory; put them into one directory and save that',
        ],
      );
    }
    byName.set(name, path);
  }
  return { files: Object.fromEntries(byName) };
}

function statOf(path: string): Stats {
  try {
    return statSync(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new CheckpointError('NotFound', `there is nothing to save at ${path}`, { context: { path } });
    }
    const isDenied = code === 'EACCES' || code === 'EPERM';
    throw new CheckpointError(isDenied ? 'Denied' : 'Unexpected', `${path} cannot be read: ${message}`, {
      context: { path },
      cause: error,
    });
  }
}

function headline(event: ProgressEvent, state: ProgressState, call: Call): string | null {
  if (event.type === 'joined') {
    call.subject.version = event.version;
    if (event.tookOver) call.messages.detail('took the run over: writers of an older attempt are fenced');
    const { index, count } = event.writer;
    return `version ${event.version} → ${call.subject.uri}   writer ${index} of ${count} · epoch ${event.epoch}`;
  }
  if (event.type === 'suspect') warnOfSuspect(event.reason, call.messages);
  if (event.type === 'delivered' && event.missingWriters.length > 0 && call.get(noWait) !== true) {
    return `${deliveredText(state.version, state.writer, state.doneBytes)}   waiting for ${formatWriters(event.missingWriters)}`;
  }
  return null;
}

function deliveredText(
  given: bigint | null,
  position: { index: number; count: number } | null,
  sizeBytes: number,
): string {
  return `delivered  version ${given}${position === null ? '' : ` (writer ${position.index} of ${position.count})`}   ${formatBytes(sizeBytes)}`;
}

function describe(
  result: SaveResult,
  { job, voided }: { job: Job; voided: VoidedWarnings },
  call: Call,
  durationMs: number,
): CommandResult {
  const position = job.writer.value;
  return {
    text: textOf(result, job, call, durationMs),
    json: {
      uri: call.subject.uri ?? null,
      version: jsonVersion(result.version),
      id: jsonId(result.id),
      isCommitted: result.isCommitted,
      wasCommittedBefore: result.wasCommittedBefore,
      isAnnotated: result.isAnnotated,
      isRetiring: result.isRetiring ?? false,
      sizeBytes: result.sizeBytes,
      referencedBytes: result.referencedBytes,
      suspicions: result.suspicions,
      fileCount: result.fileCount,
      writer: { index: position.index, count: position.count },
      life: job.life?.value ?? null,
      missingWriters: result.missingWriters,
      voided: voided.json,
      durationMs: Math.round(durationMs),
    },
  };
}

function textOf(result: SaveResult, job: Job, call: Call, durationMs: number): string {
  const position = job.writer.value;
  if (!result.isCommitted) {
    const missing =
      result.missingWriters.length === 0
        ? ''
        : `   ${formatWriters(result.missingWriters)} not delivered yet`;
    return deliveredText(result.version, position, result.sizeBytes) + missing;
  }
  const who = position.count > 1 ? ` (writer ${position.index} of ${position.count})` : '';
  const head = `${call.style('green', 'committed')}  version ${result.version}${who}`;
  if (result.wasCommittedBefore) {
    const annotated = result.isAnnotated ? '; its metrics and metadata are recorded now' : '';
    const retired = result.isRetiring ? `; ${RETIRED}` : '';
    return `${head}   before, with the same content; nothing was sent${annotated}${retired}`;
  }
  const { sizeBytes, referencedBytes } = result;
  const unchanged = referencedBytes > 0 ? `, ${formatBytes(referencedBytes)} unchanged` : '';
  const size = `${formatBytes(sizeBytes)} in ${formatPlural(result.fileCount, 'file')}${unchanged}`;
  return [head, size, ...elapsedAndRate(durationMs, sizeBytes - referencedBytes), 'latest'].join('   ');
}
