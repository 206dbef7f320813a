import {
  CheckpointError,
  type CheckpointSummary,
  hasRun,
  type ListCheckpointsOptions,
  type RunManager,
} from '@holdfast/core';

/**
 * The checkpoints of an existing run. A run begins with its first writer, so it may have none.
 * `NotFound`: there is no run.
 */
export async function listRun(
  manager: RunManager,
  uri: string,
  options: ListCheckpointsOptions,
): Promise<CheckpointSummary[]> {
  const summaries = await manager.list(options);
  if (summaries.length > 0) return summaries;
  if (await hasRun(manager, options)) return summaries;
  throw new CheckpointError('NotFound', `there is no run at ${uri}; a run begins with its first writer`, {
    context: { uri },
  });
}
