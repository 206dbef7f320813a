/** The manager for the train loops of this process. */

import { having, orNull } from '@holdfast/core/contract';
import type { CheckpointManagerOpener, TrainingCheckpointManager } from './checkpoints.ts';

/**
 * A registered symbol: `train` of one copy of the package finds what `setCheckpointManager` of
 * another copy was given.
 */
const CURRENT = Symbol.for('holdfast.checkpoint-manager');

const registry = globalThis as typeof globalThis & {
  [CURRENT]?: TrainingCheckpointManager | CheckpointManagerOpener | null;
};

/**
 * Sets the manager that `train` loads and saves with, or a function that opens one. `null` switches
 * checkpoints off, which is the default. Call it on every rank, before `train`, which reads it
 * once.
 *
 * If several workers train, give a function that opens a new manager at each call. `train` calls it
 * at the beginning of each world in which this worker becomes rank 0, and closes what it opened. A
 * worker that was replaced as rank 0 can then save again when its turn comes. Such a manager joins
 * the run at once.
 *
 * A manager that is given itself belongs to the caller, and is used in all worlds. A run refuses
 * its saves with `Fenced` after another worker was rank 0. A `saver` of `train` needs it.
 */
export function setCheckpointManager(
  manager: TrainingCheckpointManager | CheckpointManagerOpener | null,
): void {
  if (typeof manager !== 'function') orNull(having('create', 'get', 'latest', 'list'))('manager', manager);
  registry[CURRENT] = manager;
}

/** The last argument of `setCheckpointManager`; `null` if checkpoints are switched off. */
export function getCheckpointManager(): TrainingCheckpointManager | CheckpointManagerOpener | null {
  return registry[CURRENT] ?? null;
}
