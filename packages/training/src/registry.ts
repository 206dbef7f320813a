/** The manager of this process's train loops. */

import { having, orNull } from '@holdfast/core/contract';
import type { TrainingCheckpointManager } from './checkpoints.ts';

let current: TrainingCheckpointManager | null = null;

/**
 * Sets where `train` loads and saves; `null` switches checkpoints off, as they are at first. On every rank alike, and before `train`: a loop
 * keeps the manager with which it began. The manager stays the caller's: nobody closes it here.
 */
export function setCheckpointManager(manager: TrainingCheckpointManager | null): void {
  orNull(having('create', 'get', 'latest', 'list'))('manager', manager);
  current = manager;
}

/** `null`: there are no checkpoints. */
export function getCheckpointManager(): TrainingCheckpointManager | null {
  return current;
}
