import { CheckpointError } from '@holdfast/core/contract';

/** A call that is invalid as written. `advice`: why, and what to do, a line each. */
export function usageError(message: string, advice: readonly string[]): CheckpointError {
  return new CheckpointError('InvalidArgument', message, { context: { advice } });
}
