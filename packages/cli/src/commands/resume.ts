import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { buffer, concurrency, workers } from '../common-options.ts';
import { printable } from '../format.ts';
import { JOB_OPTIONS } from '../job.ts';
import { takeUriFirst } from '../operands.ts';
import { flag } from '../option.ts';
import { mtimes, onCorrupt, restoreInto } from './restore.ts';

const orStartFresh = flag(
  '--or-start-fresh',
  'succeed if nothing was ever committed, and leave DIR as it is',
);

export const resume: Command = {
  name: 'resume',
  group: 'Save and restore',
  summary: 'Restore the latest checkpoint at the start of a job, first start or not',
  description:
    'Like `restore`, for the first line of a job script: DIR may hold what an earlier start restored.\n' +
    'With --or-start-fresh a run without any checkpoint is a success too, and the job starts fresh. Every ' +
    'other failure (a wrong secret, no network, a lost catalog, damage, all versions quarantined) remains a ' +
    'failure: a script that continued after it would train from the beginning although there is a checkpoint.\n' +
    '--life (with --attempt and --writer): as in `restore`.',
  operands: 'URI DIR',
  options: [orStartFresh, mtimes, onCorrupt, ...JOB_OPTIONS, concurrency, workers, buffer],
  examples: [
    'holdfast resume "file://$PWD/run" ./ckpt --or-start-fresh || exit 1',
    'holdfast resume "file://$PWD/run" ./ckpt --or-start-fresh --json',
  ],
  isSilentWhenQuiet: true,
  run: runResume,
};

async function runResume(call: Call): Promise<CommandResult> {
  try {
    return await restoreInto(call, async () => true);
  } catch (error) {
    if (call.get(orStartFresh) !== true || !isFirstStart(error)) throw error;
    if (error.context['run'] === 'missing') await assertInNoRun(call);
    return freshStart(call);
  }
}

/** `NotFound`: the URI leads into a run, so no run can begin there. */
async function assertInNoRun(call: Call): Promise<void> {
  const { uri: given } = takeUriFirst(call.command, call.operands, call.env, ['DIR']);
  const uri = call.subject.uri ?? given;
  const { findRunAround } = await import('@holdfast/stores');
  const runAround = await findRunAround(given, { uri, env: call.env }, call.signal);
  if (runAround === null) return;
  throw new CheckpointError('NotFound', `no run at ${uri}; it lies in the run ${printable(runAround)}`, {
    context: { store: uri, run: 'missing', runAround },
  });
}

/** Whether the store has shown that the run has no checkpoint, or that there is no run. */
function isFirstStart(error: unknown): error is CheckpointError {
  if (!isCheckpointError(error, 'NotFound')) return false;
  const { run, runsBelow } = error.context;
  // A URI that is one segment short leads to a place that holds runs, and not to a new run.
  return run === 'empty' || (run === 'missing' && runsBelow === undefined);
}

function freshStart(call: Call): CommandResult {
  const { uri = null, path = null } = call.subject;
  return {
    text: `${call.style('green', 'fresh start')}  nothing was ever committed to ${printable(uri ?? '')}`,
    json: { uri, directory: path, version: null, isFreshStart: true },
  };
}
