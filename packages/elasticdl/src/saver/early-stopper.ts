/** Decides when to stop training: after each evaluation, from all evaluations so far. */

import {
  CheckpointError,
  type CheckpointManager,
  jsonReady,
  optional,
  plainObject,
  rule,
  shown,
  wholeNumber,
} from '@holdfast/core/contract';
import { aManager } from '../rules.ts';
import { checkRanked, gain, type Metrics, measured, type RankedMetric, unknownMetric } from './metrics.ts';

export interface Evaluation {
  /** Version of the model that was evaluated. */
  readonly version: bigint | number;
  /** Finite numbers. */
  readonly metrics: Metrics;
}

/** Gets all evaluations, oldest first. Returns true to stop. Called once after each evaluation. */
export type StopFunction = (history: readonly Evaluation[]) => boolean;

export interface StopRule extends RankedMetric {
  /** Stop after this many evaluations in a row without an improvement; at least 1. */
  readonly patience: number;
  /** Ignore improvements of at most this size. Default 0. */
  readonly minDelta?: number | undefined;
}

/**
 * Says after each evaluation whether to stop. It stops nothing itself, so a later improvement can
 * change the answer back.
 */
export class EarlyStopper {
  readonly #stop: StopFunction;
  /** Every evaluation must have this metric. */
  readonly #metric: string | undefined;
  readonly #history: Evaluation[] = [];
  #shouldStop = false;

  /** `InvalidArgument`: the rule has no metric, no mode, or a number out of range. */
  constructor(stop: StopRule | StopFunction) {
    this.#stop = typeof stop === 'function' ? stop : stopWithoutGain(stop);
    this.#metric = typeof stop === 'function' ? undefined : stop.metric;
  }

  /**
   * Starts with the evaluations in the run's checkpoints, oldest first, so that a restarted job
   * continues its count. Skips checkpoints that were removed by retention, left behind by a
   * rollback or quarantined. Also skips those without the metric (for a function: without any).
   * Metrics that were annotated after the save count too. At most two requests.
   *
   * Keep the best by the metric (`keepBest`). Otherwise the first evaluation after the restart is
   * compared with a worse one.
   */
  static async fromCheckpoints(
    manager: CheckpointManager,
    stop: StopRule | StopFunction,
  ): Promise<EarlyStopper> {
    aManager('manager', manager);
    const stopper = new EarlyStopper(stop);
    const metric = stopper.#metric;
    const isEvaluated = (metrics: Metrics) =>
      metric === undefined ? Object.keys(metrics).length > 0 : measured(metrics, metric) !== undefined;
    const checkpoints = (await manager.list()).reverse();
    for (const { version, metrics, state, isLeftBehind } of checkpoints) {
      if (state !== 'quarantined' && !isLeftBehind && isEvaluated(metrics)) {
        stopper.#history.push(jsonReady({ version, metrics }));
      }
    }
    if (stopper.#history.length > 0) stopper.#ask();
    return stopper;
  }

  /** Oldest first. */
  get history(): readonly Evaluation[] {
    return this.#history;
  }

  /** The last answer; false before the first evaluation. */
  get shouldStop(): boolean {
    return this.#shouldStop;
  }

  /**
   * Adds the newest evaluation and returns whether to stop. `InvalidArgument`: a metric is not a
   * finite number, or the rule's metric is missing; the evaluation is then not added. Also if the
   * function returns neither true nor false.
   */
  add(evaluation: Evaluation): boolean {
    plainObject('evaluation', evaluation);
    plainObject('metrics', evaluation.metrics);
    checkFinite(evaluation.metrics);
    const metric = this.#metric;
    if (metric !== undefined && measured(evaluation.metrics, metric) === undefined) {
      const lacks = `the evaluation of version ${evaluation.version} lacks`;
      throw unknownMetric(metric, lacks, [evaluation.metrics]);
    }
    this.#history.push(jsonReady({ version: evaluation.version, metrics: { ...evaluation.metrics } }));
    return this.#ask();
  }

  #ask(): boolean {
    const answer: unknown = this.#stop(this.#history);
    if (typeof answer !== 'boolean') {
      const what = answer instanceof Promise ? 'a promise' : shown(answer);
      throw new CheckpointError(
        'InvalidArgument',
        `the stop function returned ${what}; it returns true or false at once`,
      );
    }
    this.#shouldStop = answer;
    return answer;
  }
}

const aDelta = rule((value) => Number.isFinite(value) && (value as number) >= 0, 'a finite number from 0 on');

function stopWithoutGain(stop: StopRule): StopFunction {
  checkRanked(stop);
  wholeNumber(1)('patience', stop.patience);
  optional(aDelta)('minDelta', stop.minDelta);
  const { metric, mode, patience, minDelta = 0 } = stop;
  return (history) => {
    let best: number | undefined;
    let sinceBest = 0;
    for (const { metrics } of history) {
      const value = measured(metrics, metric) as number;
      if (best === undefined || gain(value, best, mode) > minDelta) {
        best = value;
        sinceBest = 0;
      } else sinceBest++;
    }
    return sinceBest >= patience;
  };
}

function checkFinite(metrics: Metrics): void {
  for (const [name, value] of Object.entries(metrics)) {
    if (typeof value === 'number' && Number.isFinite(value)) continue;
    throw new CheckpointError(
      'InvalidArgument',
      `metric "${name}" is ${shown(value)}; it takes a finite number`,
    );
  }
}
