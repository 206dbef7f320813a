import type { CheckpointSummary, RunManager } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { maxAge } from '../common-options.ts';
import { formatRoughDuration, printable } from '../format.ts';
import { jsonSummary } from '../json.ts';
import { nothingToLoad, requireRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';

export const latest: Command = {
  name: 'latest',
  group: 'Look',
  summary: 'Print the version a restart would load, and nothing else',
  description:
    'Exit status 6: nothing was ever committed, so a job may start at 0. Every other status except 0 must stop it: ' +
    'with 5 there are checkpoints, but none can be loaded. `holdfast resume --or-start-fresh` does all that.\n' +
    'With --max-age, status 1: the checkpoint is older than that, by the clock of the store.',
  operands: 'URI',
  options: [maxAge],
  examples: [
    'holdfast latest "file://$PWD/run"',
    'status=0; step=$(holdfast latest "file://$PWD/run" --quiet) || status=$?; case $status in 0) echo "resume at $step";; 6) echo "start at 0";; *) exit $status;; esac',
  ],
  run: runLatest,
};

async function runLatest(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const maxAgeMs = call.get(maxAge);
  const { summary, ageMs } = await withRun(call, { uri }, async (manager) => {
    const checkpoint = await manager.latest({ signal: call.signal });
    if (checkpoint?.summary && maxAgeMs === undefined) return { summary: checkpoint.summary, ageMs: 0 };
    if (checkpoint?.summary) return withAge(manager, checkpoint.summary, call);
    const shown = call.subject.uri as string;
    await requireRun(manager, shown, call);
    throw await nothingToLoad(manager, shown, call);
  });
  const isLate = maxAgeMs !== undefined && ageMs > maxAgeMs;
  if (isLate) {
    const { uri: run } = call.subject;
    const text = lateText(run as string, summary.version, ageMs, maxAgeMs);
    call.messages.warn(text, { uri: run, version: summary.version, ageMs });
  }
  return {
    text: String(summary.version),
    json: {
      uri: call.subject.uri ?? null,
      ...jsonSummary(summary),
      ...(maxAgeMs !== undefined && { ageMs, isLate }),
    },
    exitCode: isLate ? 1 : 0,
  };
}

/** The age by the store's clock alone. The run may have a newer checkpoint by now. */
async function withAge(
  manager: RunManager,
  before: CheckpointSummary,
  { signal }: Call,
): Promise<{ summary: CheckpointSummary; ageMs: number }> {
  const { latest: newest, storeTimeMs } = await manager.admin.overview({ historyMs: 1, signal });
  const summary = newest ?? before;
  return { summary, ageMs: Math.max(0, storeTimeMs - summary.committedAtMs) };
}

function lateText(uri: string, version: bigint, ageMs: number, maxAgeMs: number): string {
  const [age, limit] = [formatRoughDuration(ageMs), formatRoughDuration(maxAgeMs)];
  return `holdfast: version ${version} of ${printable(uri)} is ${age} old, more than ${limit}`;
}
