/**
 * When to save. A schedule has no state: it compares now with the last save (`SavedUntil`), so the
 * answer stays the same until a save has succeeded. A failed save is due again at the next step.
 */

import {
  CheckpointError,
  checkOptions,
  having,
  listOf,
  oneOf,
  optional,
  plainObject,
  rule,
  shown,
  text,
} from '@holdfast/core/contract';

/** Position of training after a step. */
export interface StepMoment {
  /** Number of finished steps: 0 before the first. */
  readonly step: number;
}

export interface Moment extends StepMoment {
  /** By a clock that never goes back (`Clock.monotonicMs`). */
  readonly nowMs: number;
  /** Finite numbers. Leave out a metric that was not measured in this step. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
}

/** What has been saved. Plain data, valid in one process only: `atMs` is by its monotonic clock. */
export interface SavedUntil extends StepMoment {
  readonly atMs: number;
  /** The lowest and the highest value among all saves, by name. */
  readonly ranges: Readonly<Record<string, { readonly min: number; readonly max: number }>>;
}

/**
 * Whether to save now. `InvalidArgument`: a step that is not a whole number from 0, or a metric
 * that is not finite.
 */
export interface Schedule {
  readonly isDue: (now: Moment, saved: SavedUntil) => boolean;
}

/**
 * A schedule that depends on steps only. Asynchronous parameter servers need such a schedule: each
 * decides by itself, and a checkpoint is complete only if all decide alike. They count the same
 * versions, but see different times and metrics.
 */
export interface StepSchedule {
  readonly isDue: (now: StepMoment, saved: StepMoment) => boolean;
}

/**
 * The start of a job. `step`: 0, or the step of the checkpoint from which it resumes. `metrics`:
 * those of all existing checkpoints, as `CheckpointManager.list` returns them. Without them the
 * first value of a metric counts as an improvement. Time counts from now, since nothing is unsaved
 * at the start.
 */
export function beginSchedule(
  begin: StepMoment & { readonly nowMs: number },
  metrics: Iterable<Readonly<Record<string, number>>> = [],
): SavedUntil {
  plainObject('begin', begin);
  assertStep(begin.step);
  aTime('nowMs', begin.nowMs);
  iterable('metrics', metrics);
  let saved: SavedUntil = { step: begin.step, atMs: begin.nowMs, ranges: {} };
  for (const each of metrics) saved = { ...saved, ranges: widen(saved.ranges, each, begin.step) };
  return saved;
}

/** The new `SavedUntil` after the state of `moment` was saved, for whatever reason. */
export function afterSave(saved: SavedUntil, moment: Moment): SavedUntil {
  plainObject('saved', saved);
  plainObject('saved.ranges', saved.ranges);
  plainObject('moment', moment);
  assertStep(moment.step);
  const ranges = widen(saved.ranges, moment.metrics ?? {}, moment.step);
  return { step: moment.step, atMs: moment.nowMs, ranges };
}

/**
 * Due when a multiple of `stepCount` was reached or passed since the last save. Skipped steps
 * therefore hide no save, and none is made twice.
 */
export function everySteps(stepCount: number): StepSchedule {
  assertAtLeastOne('the number of steps between saves', stepCount);
  const multiples = (step: number) => Math.floor(assertStep(step) / stepCount);
  return { isDue: (now, saved) => multiples(now.step) > multiples(saved.step) };
}

/**
 * Due when one of these steps was reached or passed since the last save. In any order, each at
 * least 1: at 0 nothing is done yet.
 */
export function atSteps(steps: readonly number[]): StepSchedule {
  iterable('steps', steps);
  if (steps.length === 0) throw invalid('a schedule at given steps needs at least one step');
  for (const step of steps) assertAtLeastOne('a step at which to save', step);
  const due = [...steps];
  return {
    isDue(now, saved) {
      assertStep(now.step);
      return due.some((step) => saved.step < step && step <= now.step);
    },
  };
}

/** Due when this much time has passed since the last save of any kind, or since the job began. */
export function everyMs(durationMs: number): Schedule {
  rule((value) => isNumber(value) && value > 0, 'a number above 0')('durationMs', durationMs);
  return {
    isDue(now, saved) {
      assertStep(now.step);
      return now.nowMs - saved.atMs >= durationMs;
    },
  };
}

/**
 * Due when a metric is better than in all saves so far, by more than `minDelta` (default 0). Not
 * due in steps without this metric. A step that is already saved is not saved again for a metric
 * that arrives later.
 */
export function onImprovement(
  metric: string,
  options: { readonly better: 'lower' | 'higher'; readonly minDelta?: number | undefined },
): Schedule {
  text('metric', metric);
  checkOptions(options, { better: oneOf('lower', 'higher'), minDelta: optional(aDelta) });
  const { better, minDelta = 0 } = options;
  return {
    isDue(now, saved) {
      assertStep(now.step);
      const value = own(now.metrics ?? {}, metric);
      if (value === undefined) return false;
      assertFinite(metric, value, now.step);
      const range = own(saved.ranges, metric);
      if (now.step <= saved.step) return false;
      if (range === undefined) return true;
      return better === 'lower' ? range.min - value > minDelta : value - range.max > minDelta;
    },
  };
}

/** Due when at least one of them is due. A `StepSchedule` if all are. */
export function anyOf(...schedules: readonly StepSchedule[]): StepSchedule;
export function anyOf(...schedules: readonly Schedule[]): Schedule;
export function anyOf(...schedules: readonly Schedule[]): Schedule {
  listOf(having('isDue'))('schedules', schedules);
  if (schedules.length === 0) throw invalid('"any of" needs at least one schedule');
  // Ask all of them: a wrong metric must be reported even if another schedule is due.
  return { isDue: (now, saved) => schedules.map((each) => each.isDue(now, saved)).includes(true) };
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);
const aTime = rule(isNumber, 'a finite number');
const aDelta = rule((value) => isNumber(value) && value >= 0, 'a finite number from 0');
const iterable = rule(
  (value) => typeof value === 'object' && value !== null && Symbol.iterator in value,
  'a list',
);

function widen(
  ranges: SavedUntil['ranges'],
  metrics: Readonly<Record<string, number>>,
  step: number,
): SavedUntil['ranges'] {
  const wider = new Map(Object.entries(ranges));
  for (const [name, value] of Object.entries(metrics)) {
    assertFinite(name, value, step);
    const { min, max } = wider.get(name) ?? { min: value, max: value };
    wider.set(name, { min: Math.min(min, value), max: Math.max(max, value) });
  }
  return Object.fromEntries(wider);
}

/** `hasOwn`, because a metric may be named like a property that every object has. */
function own<T>(values: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

function assertStep(step: number): number {
  if (Number.isSafeInteger(step) && step >= 0) return step;
  throw invalid(`the step is ${shown(step)}; it takes a whole number from 0`);
}

function assertAtLeastOne(what: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1)
    throw invalid(`${what} is ${shown(value)}; it takes a whole number from 1`);
}

function assertFinite(metric: string, value: number, step: number): void {
  if (!Number.isFinite(value))
    throw invalid(`the metric "${metric}" is ${shown(value)} at step ${step}; it takes a finite number`);
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
