import {
  CheckpointError,
  type CheckpointSummary,
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
  const entries = await manager.admin.log({ limit: 1 });
  // `latest` distinguishes a lost catalog from a run that never existed.
  if (entries.length > 0 || (await manager.latest()) !== null) return summaries;
  throw new CheckpointError('NotFound', `there is no run at ${uri}; a run begins with its first writer`, {
    context: { uri },
  });
}
