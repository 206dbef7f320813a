/**
 * The metrics. Their names hold their units, because only some exporters for Prometheus add them:
 * all show `holdfast_save_duration_seconds`.
 */

import type { MeasuredWork } from '@holdfast/core/contract';
import type { OpenTelemetryMeter } from './api.ts';

/** Seconds, from a local copy to a save that waits half an hour for other writers. */
const BOUNDARIES = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000];

export interface Ended {
  readonly work: MeasuredWork;
  /** Scheme of the store. */
  readonly store: string;
  /** `ok`, or the code of the error. */
  readonly outcome: string;
  readonly seconds: number;
  /** Bytes that were sent or received; only counted if `outcome` is `ok`. */
  readonly movedBytes: number;
}

type Histogram = ReturnType<OpenTelemetryMeter['createHistogram']>;

export class Instruments {
  readonly #durations: Readonly<Partial<Record<MeasuredWork, Histogram>>>;
  readonly #moved: ReturnType<OpenTelemetryMeter['createCounter']>;
  readonly #fenced: ReturnType<OpenTelemetryMeter['createCounter']>;
  readonly #lastCommit: ReturnType<OpenTelemetryMeter['createGauge']>;

  constructor(meter: OpenTelemetryMeter) {
    const seconds = (name: string, description: string) =>
      meter.createHistogram(name, {
        description,
        unit: 's',
        advice: { explicitBucketBoundaries: BOUNDARIES },
      });
    this.#durations = {
      save: seconds('holdfast.save.duration.seconds', 'Time of a save, until it returns.'),
      stage: seconds(
        'holdfast.save.blocked.seconds',
        'Time for which the copy of a save blocks the trainer.',
      ),
      commit: seconds(
        'holdfast.commit.duration.seconds',
        'Time from the delivery of a writer to the commit.',
      ),
      restore: seconds('holdfast.restore.duration.seconds', 'Time of a restore.'),
    };
    const moved = { description: 'Bytes of files that were sent or received.', unit: 'By' };
    this.#moved = meter.createCounter('holdfast.transfer.bytes', moved);
    const fenced = { description: 'Calls that ended because a newer attempt owns the run.' };
    this.#fenced = meter.createCounter('holdfast.fenced', fenced);
    const last = { description: 'Time of the last commit, in seconds since 1970.', unit: 's' };
    this.#lastCommit = meter.createGauge('holdfast.last_commit.timestamp.seconds', last);
  }

  ended({ work, store, outcome, seconds, movedBytes }: Ended): void {
    this.#durations[work]?.record(seconds, { store, outcome });
    const isOuter = work === 'save' || work === 'restore';
    if (isOuter && outcome === 'Fenced') this.#fenced.add(1, { store });
    if (outcome !== 'ok') return;
    if (work === 'upload') this.#moved.add(movedBytes, { store, direction: 'up' });
    if (work === 'download') this.#moved.add(movedBytes, { store, direction: 'down' });
    if (work === 'commit') this.#lastCommit.record(Date.now() / 1000, { store });
  }
}
