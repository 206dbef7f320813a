/** When training has learnt enough: decided after each evaluation, from all that there were. */

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
  /** Of the model that was evaluated. */
  readonly version: bigint | number;
  /** Finite numbers. */
  readonly metrics: Metrics;
}

/** Sees all evaluations, oldest first. True: stop. It is asked once after each evaluation. */
export type StopFunction = (history: readonly Evaluation[]) => boolean;

export interface StopRule extends RankedMetric {
  /** So many evaluations in a row without an improvement, and it is time to stop: at least 1. */
  readonly patience: number;
  /** What is better by no more than this is no improvement. Default 0. */
  readonly minDelta?: number | undefined;
}

/** Tells after each evaluation whether to stop. What became better after it has said so counts again: it does not stop anything itself. */
export class EarlyStopper {
  readonly #stop: StopFunction;
  /** That every evaluation has to have. */
  readonly #metric: string | undefined;
  readonly #history: Evaluation[] = [];
  #shouldStop = false;

  /** `InvalidArgument`: the rule has no metric, no mode, or a number out of its range. */
  constructor(stop: StopRule | StopFunction) {
    this.#stop = typeof stop === 'function' ? stop : stopWithoutGain(stop);
    this.#metric = typeof stop === 'function' ? undefined : stop.metric;
  }

  /**
   * With the evaluations that the run's checkpoints hold, oldest first, so that a job that was restarted goes on counting. What retention
   * has removed is not among them, nor what a rollback left behind, what is quarantined, or what lacks the metric (for a
   * function: any). Metrics that were annotated after the save count too. Keep the best by the metric (`keepBest`), or the first evaluation after the restart is held against a worse one.
   * At most two requests.
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

  /** Its last answer; false before the first evaluation. */
  get shouldStop(): boolean {
    return this.#shouldStop;
  }

  /**
   * Adds the next evaluation, the newest, and tells whether to stop. `InvalidArgument`: a metric is not a finite number, or the rule's is not
   * among them, and the evaluation is not added; or the function's answer is neither true nor false.
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
