/** The managers that can keep a scenario's checkpoints. */

import type { RunManager } from '@holdfast/core';
import { openCheckpointManager } from '@holdfast/stores';
import { FileSystemCheckpointManager, type TrainingCheckpointManager } from '@holdfast/training';
import type { Checkpoints } from './worker-messages.ts';

export interface OpenManager extends AsyncDisposable {
  readonly manager: TrainingCheckpointManager;
  /** The same manager, if it is one of the engine. */
  readonly run: RunManager | null;
}

/** A new manager, as a new process opens one. */
export async function openManager(checkpoints: Checkpoints): Promise<OpenManager> {
  if (checkpoints.in === 'directory') {
    const manager = new FileSystemCheckpointManager(checkpoints.path);
    return { manager, run: null, [Symbol.asyncDispose]: async () => undefined };
  }
  const manager = await openCheckpointManager(checkpoints.uri, { env: checkpoints.env });
  return { manager, run: manager, [Symbol.asyncDispose]: () => manager.close() };
}
