import { CheckpointError } from '@holdfast/core';

/** A trainer of a run that was removed, at whose place another run was begun. */
export function ofFormerRun(uri: string, cause?: unknown): CheckpointError {
  const message = `the run at ${uri} is not the one that this trainer joined: that one was removed or rebuilt, and another one is there now`;
  return new CheckpointError('Fenced', message, { cause });
}
