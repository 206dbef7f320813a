/**
 * A worker of a scenario. It trains as often as it is ordered to, until it is killed or its parent
 * has ended.
 */

import {
  AsyncSaver,
  MultiProcessCoordinator,
  Preemption,
  RecoverableError,
  setCheckpointManager,
  train,
} from '@holdfast/training';
import { type OpenManager, openManager } from './open-manager.ts';
import { SumState, SumStateFailingThirdSync, SumStateWithoutRollback } from './sum-state.ts';
import type { Hook, Trained, TrainOrder, WorkerMessage, WorkerOrder } from './worker-messages.ts';

const MAX_WORKERS = 4;
const HOOK_FROM_STEP = 3;
const PREEMPTION_DEADLINE_MS = 60_000;

let begin = Promise.withResolvers<void>();

process.on('message', (message: WorkerOrder) => {
  if (message.type === 'begin') begin.resolve();
  else
    carryOut(message.order).then(send, (error: unknown) => {
      const { name, message: text } = error instanceof Error ? error : new Error(String(error));
      send({ type: 'failed', name, message: text });
    });
});
process.on('disconnect', () => process.exit());
send({ type: 'ready' });

async function carryOut(order: TrainOrder): Promise<Trained> {
  begin = Promise.withResolvers();
  const { port, minWorkers, timeoutMs } = order;
  const options = { port, minWorkers, maxWorkers: MAX_WORKERS, timeoutMs };
  await using coordinator = await MultiProcessCoordinator.connect(options);
  if (order.meetsOften) coordinator.shouldRendezvous = async () => true;
  await using open = order.checkpoints && (await openManager(order.checkpoints));
  setCheckpointManager(open?.manager ?? null);
  const state = stateOf(order, coordinator);
  send({ type: 'connected' });
  await begin.promise;

  let stepCount = 0;
  const step = async () => {
    await state.trainOnce();
    stepCount += 1;
    if (stepCount >= HOOK_FROM_STEP) run(order.hook, stepCount);
    // Without the barrier, one rank could be a step ahead when another one fails.
    await coordinator.world.barrier();
  };
  using leaving = order.hook === 'preempt' ? leavingBySigterm(open) : null;
  await train(coordinator, step, state, { failuresMax: order.failuresMax, ...leaving?.options });
  return { type: 'trained', rank: state.rank, samples: state.samples, totalSum: state.totalSum };
}

function stateOf(order: TrainOrder, coordinator: MultiProcessCoordinator): SumState {
  const kinds = {
    plain: SumState,
    'no-rollback': SumStateWithoutRollback,
    'fails-third-sync': SumStateFailingThirdSync,
  };
  const savesEachStep = order.checkpoints !== null;
  return new kinds[order.state](() => coordinator.world, { savesEachStep });
}

/** Options of a train loop that saves beside the training and stops on SIGTERM. */
function leavingBySigterm(open: OpenManager | null) {
  if (open?.run == null) throw new Error('who leaves by a signal has a run to save to');
  const saver = new AsyncSaver(open.run);
  const preemption = new Preemption({ saver, deadlineMs: PREEMPTION_DEADLINE_MS });
  return { options: { saver, preemption }, [Symbol.dispose]: () => preemption[Symbol.dispose]() };
}

function run(hook: Hook, stepCount: number): void {
  if (hook === 'preempt') process.kill(process.pid, 'SIGTERM');
  if (hook === 'kill') process.kill(process.pid, 'SIGKILL');
  if (hook === 'freeze') process.kill(process.pid, 'SIGSTOP');
  if (hook === 'foreign-error') throw new TypeError('this step cannot be done');
  if (hook === 'recoverable-always' || (hook === 'recoverable-once' && stepCount === HOOK_FROM_STEP)) {
    throw new RecoverableError('this step may go well the next time');
  }
}

function send(message: WorkerMessage): void {
  process.send?.(message);
}
