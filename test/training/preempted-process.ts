/**
 * Trains in a run until it is preempted. Arguments in `process.argv`: the URI, the deadline, and
 * `fits` or `stalls`. With `stalls`, every payload except the first part gets no answer after the
 * notice.
 */

import { createCheckpointManager } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { FAULTS, FaultyStore } from '@holdfast/testkit';
import { AsyncSaver, LocalCoordinator, Preemption, setCheckpointManager, train } from '@holdfast/training';
import { ATTEMPT, CountingState, WAITS_AT_STEP } from './counting-state.ts';

const [, , uri = '', deadline, fate] = process.argv;

const store = new FaultyStore(await openStore(uri), ({ operation, partIndex }) => {
  const isStalled = fate === 'stalls' && preemption.isRequested;
  return isStalled && operation === 'putPart' && partIndex !== 0 ? FAULTS.stall : undefined;
});
const manager = createCheckpointManager({ store, attempt: ATTEMPT });
setCheckpointManager(manager);
const saver = new AsyncSaver(manager);
const preemption = new Preemption({ saver, deadlineMs: Number(deadline) });
const state = new CountingState();

await train(
  new LocalCoordinator(),
  async () => {
    if (state.value + 1 === WAITS_AT_STEP) await notice();
    state.value += 1;
  },
  state,
  { saver, preemption },
);
console.log(
  JSON.stringify({ value: state.value, ...preemption.report }, (_, each) =>
    typeof each === 'bigint' ? Number(each) : each,
  ),
);
process.exit();

/** The notice comes in the middle of the step. */
async function notice(): Promise<void> {
  if (fate === 'stalls') await saver.settled();
  console.error('waiting for a notice');
  // A process that only waits for a signal would end.
  const alive = setInterval(() => undefined, 60_000);
  await new Promise((resolve) => preemption.signal.addEventListener('abort', resolve));
  clearInterval(alive);
}
