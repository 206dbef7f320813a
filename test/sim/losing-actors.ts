/**
 * What processes do around the loss of a catalog. They continue after any error, as user scripts
 * do.
 */

import { isCheckpointError } from '@holdfast/core';
import { filesOf, markOf } from './contents.ts';
import { violated } from './invariant-error.ts';
import type { LostRun } from './lost-run.ts';
import type { SimProcess, World } from './process.ts';

export interface LosingStage extends World {
  readonly run: LostRun;
  /** All outcomes that processes got, for the tally. */
  readonly told: string[];
}

/** Errors that a process may get while the catalog is missing, partly rebuilt, or replaced. */
const POSSIBLE: readonly string[] = [
  'Fenced',
  'Conflict',
  'Incomplete',
  'OutcomeUnknown',
  'Unavailable',
  'TimedOut',
  'StoreRegressed',
];

/** Saves these versions one after the other. Repeats each save after an error. */
export async function writeOn(
  stage: LosingStage,
  process: SimProcess,
  { attempt, versions, triesMax }: { attempt: string; versions: readonly number[]; triesMax: number },
): Promise<void> {
  const { scheduler, run } = stage;
  const { manager, random } = process;
  for (const version of versions) {
    const author = { attempt, version, writer: 0 };
    for (let tries = 0; tries < triesMax; tries++) {
      const code = await told(stage, process, `of ${version}`, async () => {
        const { isCommitted } = await manager.save({ version, buffers: filesOf(author, false) });
        if (isCommitted) run.tellCommitted(process.name, version, markOf(author, false));
        return isCommitted ? 'committed' : 'delivered';
      });
      if (code === 'committed' || code === 'Conflict') break;
      await scheduler.turn(process, 'tries again', scheduler.steps + random.integer(20));
    }
  }
  await manager.close();
}

/** Rebuilds until a catalog exists, made by any process. */
export async function rebuild(stage: LosingStage, process: SimProcess): Promise<void> {
  const { scheduler, run } = stage;
  const { manager, random } = process;
  for (let tries = 0; tries < 3; tries++) {
    const code = await told(stage, process, 'of the catalog', async () => {
      const { runId } = await manager.admin.rebuildCatalog();
      run.tellRebuilt(process.name, runId);
      return 'rebuilt';
    });
    if (code === 'rebuilt' || code === 'Conflict') break;
    await scheduler.turn(process, 'tries again', scheduler.steps + random.integer(10));
  }
  await manager.close();
}

/** Keeps one checkpoint and collects all garbage. */
export async function collect(stage: LosingStage, process: SimProcess): Promise<void> {
  const { scheduler } = stage;
  const { manager, random } = process;
  for (let calls = 0; calls < 3; calls++) {
    await scheduler.turn(process, 'comes to collect', scheduler.steps + random.integer(30));
    await told(stage, process, 'of its collection', async () => {
      const { retired, removed } = await manager.admin.collect({
        policy: { keepLast: 1, graceMs: 0 },
        force: true,
      });
      return `retired ${retired}, removed ${removed}`;
    });
  }
  await manager.close();
}

/** Returns the result of the call, or the code of its error. */
async function told(
  { trace, told: all }: LosingStage,
  process: SimProcess,
  of: string,
  call: () => Promise<string>,
): Promise<string> {
  const outcome = await call().catch((error: unknown) => {
    if (!isCheckpointError(error)) throw error;
    // A mark in place of an entry, or an entry of another run, is not damage.
    const isPossible = POSSIBLE.includes(error.code) || error.context['isIntact'] === true;
    if (!isPossible && !(error.code === 'NotFound' && of === 'of its collection'))
      violated('I7', `${process.name} was told ${error.code} ${of}: ${error.message}`);
    return error.code;
  });
  trace.add(process.name, `is told ${of}: ${outcome}`);
  all.push(outcome);
  return outcome;
}
