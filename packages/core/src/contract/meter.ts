/** What a manager measures, for tracing and metrics. */

import type { WriterPosition } from './checkpoint-facts.ts';
import type { Logger } from './components.ts';

/**
 * A piece of work that is measured:
 * - `save`: one call of `save`, until it returns. It contains `stage`, `upload` and `commit`.
 * - `stage`: the copy that `save` makes with the option `staging`. It blocks the trainer.
 * - `upload`: one file, until its object is durable. Nothing is sent for an unchanged file.
 * - `commit`: from the delivery of this writer's files to the commit, waiting for others included.
 * - `restore`: one call of `restore`.
 * - `download`: one file, until it is verified and written.
 */
export type MeasuredWork = 'save' | 'stage' | 'upload' | 'commit' | 'restore' | 'download';

/** Facts about a piece of work. A value that does not apply, or is not known, is absent. */
export interface Measured {
  readonly version?: bigint | undefined;
  readonly writer?: WriterPosition | undefined;
  /** Logical name of the file. */
  readonly name?: string | undefined;
  /** Key of the object in the store, below the URI of the run. */
  readonly key?: string | undefined;
  readonly sizeBytes?: number | undefined;
  /** The part of `sizeBytes` that was stored before and was not sent. */
  readonly referencedBytes?: number | undefined;
  readonly fileCount?: number | undefined;
}

export interface MeasuredSpan {
  /** Adds what became known since the work began. May be called at any time before its end. */
  set(known: Measured): void;
}

/**
 * Receives all measured work of one manager. It changes no outcome: an error that it throws is
 * logged once and ignored.
 */
export interface Meter {
  /**
   * Calls `run` once, before it returns, and resolves or rejects as the promise of `run` does. Work
   * that `run` begins belongs to this span, in the sense of `AsyncLocalStorage`. `known` holds at
   * least `uri`, the URI of the run, which contains no secret.
   */
  measure<T>(
    work: MeasuredWork,
    known: Measured & { readonly uri: string },
    run: (span: MeasuredSpan) => Promise<T>,
  ): Promise<T>;
}

const unmeasured: MeasuredSpan = { set: () => undefined };

export const silentMeter: Meter = { measure: (_work, _known, run) => run(unmeasured) };

/**
 * The same meter, but its errors are logged once and ignored, and the work runs exactly once
 * whatever the meter does.
 */
export function safeMeter(meter: Meter, logger: Logger): Meter {
  let hasFailed = false;
  const failed = (error: unknown) => {
    if (!hasFailed) logger.log('warn', 'the meter threw an error; calls continue', { error: String(error) });
    hasFailed = true;
  };
  const guarded = (span: MeasuredSpan): MeasuredSpan => ({
    set: (known) => {
      try {
        span.set(known);
      } catch (error) {
        failed(error);
      }
    },
  });
  return {
    measure<T>(...[work, known, run]: Parameters<typeof meter.measure<T>>): Promise<T> {
      let running: Promise<T> | undefined;
      const once = (span: MeasuredSpan) => {
        running ??= run(guarded(span));
        return running;
      };
      try {
        // The caller gets the work's own promise. That of the meter is awaited only for its errors.
        const measured = Promise.resolve(meter.measure(work, known, once));
        measured.catch((error: unknown) =>
          running?.then(
            () => failed(error),
            () => undefined,
          ),
        );
      } catch (error) {
        failed(error);
      }
      return once(unmeasured);
    },
  };
}
