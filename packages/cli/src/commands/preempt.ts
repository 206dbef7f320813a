import { CheckpointError } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { version as versionOption } from '../common-options.ts';
import { formatRoughDuration } from '../format.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { value } from '../option.ts';
import { type Circumstances, durableText, isLost, lossError, waitedJson } from '../preempt/describe.ts';
import { showWaiting } from '../preempt/show-waiting.ts';
import { HURRIED_SETTINGS, type Waited, waitForBegun } from '../preempt/wait-for-begun.ts';
import { parseDeadline } from '../values.ts';

/** Kubernetes allows 30 s after SIGTERM, including the start and the end of this process. */
const DEADLINE_MS = 25_000;

const deadline = value(
  '--deadline <duration>',
  'when to end at the latest, such as 110s before a spot machine is taken away; default 25s',
  parseDeadline,
);
const version = {
  ...versionOption,
  help: 'wait for this version, even if nothing of it is there yet; default: all saves in progress',
};

export const preempt: Command = {
  name: 'preempt',
  group: 'Save and restore',
  summary: 'Before a machine is taken away: wait for the saves in progress, and say what is durable',
  description:
    'For hooks that run before a machine is taken away, beside saves in other processes.\n' +
    'It finishes versions whose writers have all delivered. It stops no save and takes no run over.\n' +
    'Exit status 3: something did not become durable in time; the message says what is lost.\n' +
    'A save that has sent nothing yet is not seen, unless --version names it.',
  operands: 'URI',
  options: [version, deadline],
  examples: [
    'holdfast preempt "file://$PWD/run" --deadline 25s',
    'holdfast preempt "file://$PWD/run" --deadline 110s --json',
  ],
  run: runPreempt,
};

async function runPreempt(call: Call): Promise<CommandResult> {
  const beganMs = call.clock.monotonicMs();
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const deadlineMs = call.get(deadline) ?? DEADLINE_MS;
  const given = call.get(version);
  // The system that stops the machine may also send SIGTERM to this process.
  const time = formatRoughDuration(deadlineMs);
  call.outlastSigterm(deadlineMs, `holdfast: SIGTERM: waiting continues until the deadline of ${time}`);
  const bounds = { beganMs, untilMs: beganMs + deadlineMs };
  const waited = await withRun(
    call,
    { uri, closeUntilMs: bounds.untilMs, settings: HURRIED_SETTINGS },
    async (manager) => {
      const onLook = await showWaiting(call, bounds);
      const { clock, signal } = call;
      return expectingRun(call, manager, () =>
        waitForBegun(manager, { version: given, clock, signal, onLook, ...bounds }),
      );
    },
  );
  const shown = call.subject.uri as string;
  return describe(waited, call, { uri: shown, deadlineMs, nowMs: call.clock.nowMs(), version: given });
}

function describe(waited: Waited, call: Call, about: Circumstances): CommandResult {
  const json = waitedJson(waited, about);
  if (waited.versions.some(isLost)) return { text: '', json, error: lossError(waited, about) };
  if (waited.durable === null) throw nothingDurable(about.uri);
  const text = `${call.style('green', 'durable')}    ${durableText(waited.durable, waited, about)}`;
  return { text, json };
}

function nothingDurable(uri: string): CheckpointError {
  const advice = [
    'all that was trained is lost with the machine',
    'a save that has sent nothing yet is not seen; --version V waits for it',
  ];
  const message = `the run at ${uri} has no checkpoint to load, and no save was seen in progress`;
  return new CheckpointError('NotFound', message, { context: { store: uri, advice } });
}
