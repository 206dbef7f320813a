import { CheckpointError, type Clock, systemClock } from '@holdfast/core/contract';
import type { EarlySignals } from './early-signals.ts';
import { formatRoughDuration } from './format.ts';

const INTERRUPTED_EXIT_CODE = 130;
/**
 * Signals of one stop: a signal to a whole process group also comes from a parent that forwards it,
 * such as `timeout`. A person needs longer to press Ctrl-C again.
 */
const ONE_STOP_MS = 500;

export interface Interrupt {
  /** Fires at the first Ctrl-C, with `Aborted` as its reason. */
  readonly signal: AbortSignal;
  /**
   * From now on the first SIGTERM calls `onSigterm`, and interrupts only after this many
   * milliseconds. Further ones before that are ignored. Ctrl-C still interrupts.
   */
  outlastSigterm(forMs: number, onSigterm: () => void): void;
  /** Acts on the signals that came while the program loaded. Call it once the command has begun. */
  deliverEarly(): void;
  /**
   * The outcome is known: from now on both signals are ignored. Without a listener they would end
   * the process, and its exit status would hide the outcome.
   */
  dispose(): void;
}

/** Source of the signals: the process. */
type SignalSource = Pick<NodeJS.EventEmitter, 'on' | 'off'>;

/**
 * The first Ctrl-C (or SIGTERM, as schedulers send it) asks the call to end cleanly. At a
 * second one, at least half a second later, the process ends at once. Ending at once is safe as
 * well: an interrupted save leaves no checkpoint, and a committed one stays committed.
 */
export function listenForInterrupt(
  onFirst: () => void,
  {
    clock = systemClock,
    signals = process,
    early,
  }: { clock?: Clock; signals?: SignalSource; early?: EarlySignals } = {},
): Interrupt {
  const controller = new AbortController();
  const over = new AbortController();
  let grace: { readonly forMs: number; readonly onSigterm: () => void } | undefined;
  let isTerminating = false;
  let firstMs = 0;
  const interrupt = (message: string) => {
    if (controller.signal.aborted) {
      if (clock.monotonicMs() - firstMs < ONE_STOP_MS) return;
      process.exit(INTERRUPTED_EXIT_CODE);
    }
    firstMs = clock.monotonicMs();
    over.abort();
    controller.abort(new CheckpointError('Aborted', message));
    onFirst();
  };
  const onInterrupt = () => interrupt('interrupted');
  const onTerminate = () => {
    if (grace === undefined || controller.signal.aborted) return onInterrupt();
    if (isTerminating) return;
    isTerminating = true;
    const { forMs, onSigterm } = grace;
    const stop = () => interrupt(`stopped ${formatRoughDuration(forMs)} after SIGTERM`);
    // The call has ended by itself, or by Ctrl-C.
    clock.sleep(forMs, over.signal).then(stop, () => undefined);
    onSigterm();
  };
  signals.on('SIGINT', onInterrupt);
  signals.on('SIGTERM', onTerminate);
  const received = early?.take() ?? [];
  return {
    signal: controller.signal,
    outlastSigterm(forMs, onSigterm) {
      grace = { forMs, onSigterm };
    },
    deliverEarly() {
      for (const signal of received.splice(0)) signal === 'SIGINT' ? onInterrupt() : onTerminate();
    },
    dispose() {
      over.abort();
      const listeners = { SIGINT: onInterrupt, SIGTERM: onTerminate };
      for (const [signal, listener] of Object.entries(listeners))
        signals.on(signal, ignore).off(signal, listener);
    },
  };
}

function ignore(): void {
  // The outcome stands.
}
