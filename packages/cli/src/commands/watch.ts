import { resolve } from 'node:path';
import { CheckpointError, type SaveResult, toCheckpointError } from '@holdfast/core/contract';
import { askedOf } from '../ask-once-more.ts';
import type { Call, Command, CommandResult } from '../command.ts';
import {
  afterSigterm,
  buffer,
  concurrency,
  exclude,
  limitRate,
  links,
  meta,
  timeout,
  workers,
} from '../common-options.ts';
import type { Job } from '../env.ts';
import { formatBytes, formatCount, formatPlural, formatRoughDuration, printable } from '../format.ts';
import { JOB_OPTIONS, jobOf } from '../job.ts';
import { type JsonObject, jsonVersion } from '../json.ts';
import { withRun } from '../open-run.ts';
import { noUris } from '../operands.ts';
import { flag, value } from '../option.ts';
import { RETENTION_OPTIONS, rulesToSet } from '../retention-options.ts';
import { usageError } from '../usage-error.ts';
import { durationBetween, pairsToRecord } from '../values.ts';
import type { Folder, FolderOptions, NotSaved } from '../watch/folder.ts';
import { parsePattern } from '../watch/pattern.ts';
import { parseRule } from '../watch/rule.ts';
import type { Entry } from '../watch/tree.ts';

const INTERVAL_MS = 2000;
const DEFAULT_PATTERN = 'step-{version}';

const pattern = value(
  '--pattern <name>',
  'names of checkpoints in DIR, such as checkpoint-{version} or "epoch=*-step={version}.ckpt"; default step-{version}',
  parsePattern,
);
const completeWhen = value(
  '--complete-when <rule>',
  'when a checkpoint is complete: rename, metadata, hf, hf:8, tracker, tracker:10s or quiet:30s',
  parseRule,
);
const interval = value(
  '--interval <duration>',
  'how often to look; default 2s',
  durationBetween(100, 3600_000),
);
const once = flag('--once', 'save what is complete now, and end; not with tracker or quiet');
export const watch: Command = {
  name: 'watch',
  group: 'Save and restore',
  summary: 'Save the checkpoints that a trainer writes into a directory, each when it is complete',
  description:
    'For trainers that only write to a local directory. Each checkpoint in DIR becomes a version of the run. ' +
    'It opens all files of a checkpoint before it reads one, and changes nothing in DIR: the trainer may rotate its ' +
    'checkpoints at any time. What is in the run already is not saved again, so it can be started anew.\n' +
    'rename: the trainer gives the name when all is written (Lightning, torch_checkpointing). ' +
    'metadata: .metadata is written last (PyTorch DCP). hf, hf:8: the Trainer of Hugging Face, with 8 ranks. ' +
    'tracker: "latest" or "latest_checkpointed_iteration.txt" in DIR names it (DeepSpeed, Megatron, verl), and nothing ' +
    'has changed for 10s. quiet:30s: nothing has changed for 30s.',
  operands: 'DIR URI [DIR URI...]',
  options: [
    ...[pattern, completeWhen, interval, once, exclude, links, afterSigterm, ...JOB_OPTIONS, timeout, meta],
    ...RETENTION_OPTIONS,
    ...[concurrency, workers, buffer, limitRate],
  ],
  examples: [
    'mkdir -p out && holdfast watch out "file://$PWD/run" --complete-when metadata --once',
    'holdfast watch out s3://bucket/run --pattern checkpoint-{version} --complete-when hf:8 --keep 3',
  ],
  isSilentWhenQuiet: true,
  run: runWatch,
};

async function runWatch(call: Call): Promise<CommandResult> {
  const pairs = pairsOf(call);
  const job = jobOf(call);
  const common = optionsOf(call, job);
  const forMs = call.get(afterSigterm);
  if (forMs !== undefined) {
    const time = formatRoughDuration(forMs);
    call.outlastSigterm(forMs, `holdfast: SIGTERM: watching continues for up to ${time}; Ctrl-C ends it`);
  }
  // Loaded here, so that `--help` does not wait for what it needs.
  const { Folder } = await import('../watch/folder.ts');
  const stop = new AbortController();
  const signal = AbortSignal.any([call.signal, stop.signal]);
  const folders = pairs.map(
    ({ directory }) => new Folder(directory, { ...common, save: { ...common.save, signal } }),
  );
  const uris: string[] = [];
  const watching = pairs.map(async ({ uri }, index) => {
    try {
      await watchFolder(call, folders[index] as Folder, {
        uri,
        job,
        signal,
        onOpen: (shown) => (uris[index] = shown),
      });
    } catch (error) {
      // The others end with it, so that the failure is seen.
      stop.abort(error);
      throw error;
    }
  });
  const ended = await Promise.allSettled(watching);
  if (stop.signal.aborted && !call.signal.aborted) throw stop.signal.reason;
  return { ...describe(folders, uris), ...failureOf(folders, ended) };
}

/** The first checkpoint that is complete and was not saved sets the exit status. */
function failureOf(
  folders: readonly Folder[],
  ended: readonly PromiseSettledResult<void>[],
): { readonly error?: CheckpointError } {
  const failing = folders.findIndex(({ notSaved }) => notSaved.some((each) => !each.isPassedOver));
  const notSaved = folders[failing]?.notSaved.find((each) => !each.isPassedOver);
  if (notSaved === undefined) return {};
  const end = ended[failing];
  // The error of a save that a signal ended was thrown on, and the store was asked once more.
  const wasEnded = notSaved.why.code === 'Aborted' || notSaved.why.code === 'OutcomeUnknown';
  const error = wasEnded && end?.status === 'rejected' ? toCheckpointError(end.reason) : notSaved.why;
  const { code, message, context } = error;
  const isSaved = askedOf(error)?.outcome === 'committed';
  const what = isSaved ? printable(notSaved.path) : notSavedText(notSaved);
  return { error: new CheckpointError(code, `${what}: ${message}`, { context }) };
}

function notSavedText({ path, version }: NotSaved): string {
  return version === null ? 'nothing is saved' : `version ${version} in ${path} is not saved`;
}

interface Pair {
  readonly directory: string;
  readonly uri: string;
}

function pairsOf({ command, operands }: Call): Pair[] {
  if (operands.length === 0 || operands.length % 2 !== 0)
    throw usageError('watch takes a directory and the URI of its run, or several such pairs', [
      `it was given ${formatPlural(operands.length, 'operand')}`,
    ]);
  noUris(
    command,
    operands.filter((_, index) => index % 2 === 0),
  );
  const pairs: Pair[] = [];
  for (let index = 0; index < operands.length; index += 2) {
    const [directory = '', uri = ''] = operands.slice(index, index + 2);
    if (pairs.some((other) => other.uri === uri))
      throw usageError('watch takes each run once', [
        `pairs ${pairs.findIndex((other) => other.uri === uri) + 1} and ${index / 2 + 1} name one run`,
        'the checkpoints of a run come from one directory on each machine',
      ]);
    pairs.push({ directory: resolve(directory), uri });
  }
  return pairs;
}

function optionsOf(call: Call, job: Job): FolderOptions {
  const rule = call.get(completeWhen);
  if (rule === undefined)
    throw usageError('watch needs --complete-when', [
      'it says when a checkpoint is complete: rename, metadata, hf, tracker or quiet:30s; holdfast watch --help explains them',
    ]);
  if (call.get(once) === true && 'quietMs' in rule)
    throw usageError(`--once cannot be combined with --complete-when ${rule.kind}`, [
      'whether nothing changes can only be seen over time',
    ]);
  return {
    pattern: call.get(pattern) ?? parsePattern(DEFAULT_PATTERN),
    rule,
    nowMs: () => call.clock.monotonicMs(),
    wallMs: () => call.clock.nowMs(),
    save: {
      writer: job.writer.value,
      timeoutMs: call.get(timeout),
      exclude: call.get(exclude),
      links: call.get(links),
      metadata: pairsToRecord(call.get(meta) ?? []),
    },
    onSaved: (entry, result) => tellSaved(call, entry, result),
    onNotSaved: (what) => tellNotSaved(call, what),
  };
}

async function watchFolder(
  call: Call,
  folder: Folder,
  { uri, job, signal, onOpen }: { uri: string; job: Job; signal: AbortSignal; onOpen: (uri: string) => void },
): Promise<void> {
  const { files } = folder;
  await withRun(call, { uri, job, rules: rulesToSet(call), files }, async (manager) => {
    onOpen(call.subject.uri as string);
    for (;;) {
      await folder.look(manager);
      if (call.get(once) === true) return;
      await call.clock.sleep(call.get(interval) ?? INTERVAL_MS, signal);
    }
  });
}

function tellSaved(
  call: Call,
  { path }: Entry,
  { version, sizeBytes, wasCommittedBefore }: SaveResult,
): void {
  const how = wasCommittedBefore ? 'there was' : 'saved';
  call.print(
    `${call.style('green', how)}  version ${version}   ${formatBytes(sizeBytes)}   ${printable(path)}`,
  );
}

function tellNotSaved(call: Call, what: NotSaved): void {
  const { code, message } = what.why;
  const text = `holdfast: ${printable(notSavedText(what))}: ${printable(message)} (${code})`;
  call.messages.warn(text, { code, path: what.path, version: what.version });
}

function describe(folders: readonly Folder[], uris: readonly string[]): CommandResult {
  const directories: JsonObject[] = folders.map(({ directory, saved, notSaved }, index) => ({
    path: directory,
    uri: uris[index] ?? null,
    saved: saved.map(jsonVersion),
    notSaved: notSaved.map(({ path, version, why: { code, message } }) => ({
      path,
      version: version === null ? null : jsonVersion(version),
      code,
      message,
    })),
  }));
  const count = folders.reduce((sum, { saved }) => sum + saved.length, 0);
  return {
    text: `watched  ${folders.length === 1 ? '1 directory' : `${formatCount(folders.length)} directories`}   ${formatPlural(count, 'version')} saved`,
    json: { directories },
  };
}
