/** The managers that a scenario's checkpoints can be kept by. */

import { openCheckpointManager } from '@holdfast/stores';
import { FileSystemCheckpointManager, type TrainingCheckpointManager } from '@holdfast/training';
import type { Checkpoints } from './worker-messages.ts';

export interface OpenManager extends AsyncDisposable {
  readonly manager: TrainingCheckpointManager;
}

/** A manager of its own, as a new process has it. */
export async function openManager(checkpoints: Checkpoints): Promise<OpenManager> {
  if (checkpoints.in === 'directory') {
    const manager = new FileSystemCheckpointManager(checkpoints.path);
    return { manager, [Symbol.asyncDispose]: async () => undefined };
  }
  const manager = await openCheckpointManager(checkpoints.uri, { env: checkpoints.env });
  return { manager, [Symbol.asyncDispose]: () => manager.close() };
}
