import { CheckpointError } from '@holdfast/core/contract';

const INTERRUPTED_EXIT_CODE = 130;

export interface Interrupt {
  /** Fires at the first Ctrl-C, with `Aborted` as its reason. */
  readonly signal: AbortSignal;
  dispose(): void;
}

/**
 * Ctrl-C once (or SIGTERM, as schedulers send it) asks the call to end cleanly; a second time the process ends at once.
 * Ending at once is safe as well: a save that is cut off leaves no checkpoint, and one that is committed stays so.
 */
export function listenForInterrupt(onFirst: () => void): Interrupt {
  const controller = new AbortController();
  const onSignal = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED_EXIT_CODE);
    controller.abort(new CheckpointError('Aborted', 'interrupted'));
    onFirst();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    dispose() {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}
