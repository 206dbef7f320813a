import { CheckpointError } from '@holdfast/core/contract';

/**
 * A call that cannot be carried out as it is written. `advice`: why, and what to do, a line each.
 */
export function usageError(message: string, advice: readonly string[]): CheckpointError {
  return new CheckpointError('InvalidArgument', message, { context: { advice } });
}
