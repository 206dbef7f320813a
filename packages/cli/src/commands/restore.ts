import {
  isCheckpointError,
  type ProgressEvent,
  type Replace,
  type RestoreResult,
  type RunManager,
} from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import {
  buffer,
  checkpointOrLatest,
  concurrency,
  foundText,
  givenVersion,
  workers,
} from '../common-options.ts';
import { formatBytes, printable } from '../format.ts';
import { JOB_OPTIONS, jobOfLife, VoidedWarnings } from '../job.ts';
import { jsonId, jsonVersion } from '../json.ts';
import { expectingRun, nothingToLoad, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value, valueList } from '../option.ts';
import { elapsedAndRate } from '../outcome.ts';
import { confirmedReplace, fillingHeadline, REPLACE_OPTIONS } from '../replace-option.ts';
import { parseChoice, parseGlob } from '../values.ts';

const only = valueList(
  '--only <glob>',
  'only files and empty directories that match, such as "*.pt" or "layer-{1,2}/**"; may be repeated',
  parseGlob,
);
export const mtimes = flag(
  '--mtimes',
  'give files and empty directories the modification times that they had when they were saved',
);
export const onCorrupt = value(
  '--on-corrupt <what>',
  'fail (the default), or fallback: restore the newest older version that verifies',
  parseChoice(['fail', 'fallback']),
  ['fail', 'fallback'],
);

export const restore: Command = {
  name: 'restore',
  group: 'Save and restore',
  summary: 'Restore a checkpoint into a directory, every byte verified',
  description:
    'DIR appears complete or not at all. If it exists and is not empty, it is refused. --replace replaces ' +
    'an earlier restore, if no file was added to it or changed since. --replace=everything replaces any ' +
    'directory, after it has said how many files it will delete, and asked; ' +
    'without a terminal it needs --apply. Runs, mount points, home directories and the working ' +
    'directory are never replaced, nor is a directory that holds one. Nothing is restored into a run.',
  operands: 'URI DIR',
  options: [
    ...[checkpointOrLatest, only, mtimes, ...REPLACE_OPTIONS, onCorrupt],
    ...[...JOB_OPTIONS, concurrency, workers, buffer],
  ],
  examples: [
    'holdfast restore "file://$PWD/run" ./resume',
    'holdfast restore "file://$PWD/run" ./resume --version 1200 --replace',
    'holdfast restore "file://$PWD/run" ./weights --only "*.safetensors"',
  ],
  isSilentWhenQuiet: true,
  run: runRestore,
};

function runRestore(call: Call): Promise<CommandResult> {
  return restoreInto(call, (directory) => confirmedReplace(call, directory));
}

/** For commands with the operands `URI DIR`. `replaceOf`: what may be replaced in the directory. */
export async function restoreInto(
  call: Call,
  replaceOf: (directory: string) => Promise<Replace>,
): Promise<CommandResult> {
  const { uri, rest } = takeUriFirst(call.command, call.operands, call.env, ['DIR']);
  const directory = rest[0] as string;
  call.subject.path = directory;
  const given = givenVersion(call);
  const job = jobOfLife(call);
  const voided = new VoidedWarnings(call);
  const beganMs = call.clock.monotonicMs();
  const result = await withRun(call, { uri, ...(job && { job }), isPatient: true }, async (manager) => {
    const replace = await replaceOf(directory);
    await call.reporter.begin({
      verb: 'restored',
      headline: (event) => (voided.take(event) ? null : headline(event, call)),
    });
    const { signal } = call;
    const { onProgress } = call.reporter;
    return explainFailure(call, manager, () =>
      manager.restore({
        version: given,
        to: directory,
        only: call.get(only),
        mtimes: call.get(mtimes),
        replace,
        onCorrupt: call.get(onCorrupt),
        signal,
        onProgress,
      }),
    );
  });
  const { text, json } = describe(result, call, call.clock.monotonicMs() - beganMs);
  return { text, json: { ...json, life: job?.life?.value ?? null, voided: voided.json } };
}

/** Finds out what could be restored instead, to explain an error. */
async function explainFailure<T>(call: Call, manager: RunManager, restoring: () => Promise<T>): Promise<T> {
  try {
    return await expectingRun(call, manager, restoring);
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt') && call.get(onCorrupt) !== 'fallback') {
      const damaged = error.context.version;
      // Only the advice depends on it: if the list cannot be read, the damage is still reported.
      const others = await manager.list({ signal: call.signal }).catch(() => []);
      const alternative = others.find(
        (each) =>
          each.state === 'live' && !each.isLeftBehind && damaged !== undefined && each.version !== damaged,
      );
      if (alternative !== undefined) call.subject.alternative = alternative.version;
    }
    const isLatest = (call.get(checkpointOrLatest) ?? 'latest') === 'latest';
    const isNothingThere = isCheckpointError(error, 'NotFound') && error.context['run'] === undefined;
    const isUnusable = isCheckpointError(error, 'Corrupt') && error.context['run'] === 'unusable';
    if (isLatest && (isNothingThere || isUnusable)) {
      if ((await manager.latest({ signal: call.signal })) === null)
        throw await nothingToLoad(manager, call.subject.uri as string, call);
    }
    throw error;
  }
}

function headline(event: ProgressEvent, call: Call): string | null {
  if (event.type === 'skipped') {
    call.messages.warn(
      `holdfast: version ${event.version} is damaged and is skipped: ${printable(event.reason)}`,
    );
    return null;
  }
  return fillingHeadline(event, call);
}

function describe(result: RestoreResult, call: Call, durationMs: number): CommandResult {
  const skipped = result.skipped.map(
    (each) => `${call.style('yellow', 'skipped')}   version ${each.version}   ${printable(each.reason)}`,
  );
  const head = `${call.style('green', 'restored')}  version ${foundText(call.get(checkpointOrLatest), result.id)}`;
  const done = [
    head,
    formatBytes(result.sizeBytes),
    ...elapsedAndRate(durationMs, result.sizeBytes),
    'every byte verified',
  ].join('   ');
  return {
    text: [...skipped, done].join('\n'),
    json: {
      uri: call.subject.uri ?? null,
      directory: call.subject.path ?? null,
      version: jsonVersion(result.version),
      id: jsonId(result.id),
      sizeBytes: result.sizeBytes,
      fileCount: result.fileCount,
      skipped: result.skipped.map((each) => ({ version: jsonVersion(each.version), reason: each.reason })),
      durationMs: Math.round(durationMs),
    },
  };
}
