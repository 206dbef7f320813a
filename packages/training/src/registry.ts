/** The manager for the train loops of this process. */

import { having, orNull } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';

let current: TrainingCheckpointManager | null = null;

/**
 * Sets the manager that `train` loads and saves with. `null` switches checkpoints off, which is the
 * default. Call it on every rank, before `train`: a loop keeps the manager it began with. The
 * manager belongs to the caller and is not closed here.
 */
export function setCheckpointManager(manager: TrainingCheckpointManager | null): void {
  orNull(having('create', 'get', 'latest', 'list'))('manager', manager);
  current = manager;
}

/** `null` if checkpoints are switched off. */
export function getCheckpointManager(): TrainingCheckpointManager | null {
  return current;
}
