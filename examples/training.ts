/**
 * A train loop that resumes from its latest checkpoint. It undoes a failed step by itself, saves
 * while it trains, and exits in time after a preemption notice.
 */

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import {
  AsyncSaver,
  LocalCoordinator,
  Preemption,
  RecoverableError,
  State,
  StopIteration,
  setCheckpointManager,
  train,
} from '@holdfast/training';

/** Learns that y = 3 x. */
class Line extends State<{ slope: number; step: number }> {
  slope = 0;
  step = 0;
  override sync = async () => undefined; // this process trains alone
  override snapshot = () => ({ slope: this.slope, step: this.step });
  override apply = (snapshot: { slope: number; step: number } | null) => Object.assign(this, snapshot);
  override shouldSaveCheckpoint = () => this.step % 10 === 0;
}

await using manager = await openCheckpointManager(
  pathToFileURL(join(tmpdir(), 'holdfast-example', 'training')).href,
);
await using saver = new AsyncSaver(manager);
using preemption = new Preemption({ saver, deadlineMs: 25_000 }); // SIGTERM announces it
setCheckpointManager(manager);

let stepsLeft = 20;
let isNetworkDown = true;
function learn(state: Line): void {
  if (stepsLeft === 0) throw new StopIteration('no data left');
  const x = state.step % 5;
  state.slope += 0.02 * x * (3 * x - state.slope * x);
  if (isNetworkDown && stepsLeft === 15) {
    isNetworkDown = false;
    throw new RecoverableError('a worker is gone'); // the loop undoes this step and repeats it
  }
  state.step += 1;
  stepsLeft -= 1;
}

const quiet = { log: () => undefined };
const { step, slope } = await train(new LocalCoordinator(), learn, new Line(), {
  saver,
  preemption,
  logger: quiet,
});
console.log(`step ${step}: slope ${slope.toFixed(3)}; newest checkpoint ${saver.newest?.version}`);
