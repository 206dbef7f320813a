import { CheckpointError } from '@holdfast/core/contract';

/** Node's name for the system call that finds the working directory. */
const SYSCALL = 'uv_cwd';

/**
 * Replaces an error that reports, itself or in its causes, that the working directory is gone.
 * Returns a `NotFound` error: no relative path can be resolved. `null`: it is another error.
 */
export function workingDirectoryGone(thrown: unknown): CheckpointError | null {
  for (let at = thrown; at instanceof Error; at = at.cause) {
    if ('syscall' in at && at.syscall === SYSCALL) {
      const advice = ['change to a directory that exists (cd), and run the command again'];
      const message = 'the working directory is gone: it was removed or replaced';
      return new CheckpointError('NotFound', message, { context: { advice }, cause: thrown });
    }
  }
  return null;
}
