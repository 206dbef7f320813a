import type { ErrorCode } from '@holdfast/core/contract';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  afterSave,
  anyOf,
  atSteps,
  beginSchedule,
  everyMs,
  everySteps,
  type Moment,
  onImprovement,
  type Schedule,
  type StepSchedule,
} from './schedule.ts';

const START = beginSchedule({ step: 0, nowMs: 0 });
const at = (step: number, nowMs = 0): Moment => ({ step, nowMs });

/** Steps at which a job saves if it is asked at these moments and all saves succeed. */
function savedSteps(schedule: Schedule, moments: readonly Moment[], begin = START): number[] {
  let saved = begin;
  const steps: number[] = [];
  for (const now of moments) {
    if (!schedule.isDue(now, saved)) continue;
    steps.push(now.step);
    saved = afterSave(saved, now);
  }
  return steps;
}

const upTo = (last: number, first = 0) =>
  Array.from({ length: last - first + 1 }, (_, index) => at(first + index));

function failure(code: ErrorCode, message: RegExp) {
  return expect.objectContaining({ code, message: expect.stringMatching(message) });
}

function thrown(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

describe('every N steps', () => {
  test('due at each multiple, and not at step 0', () => {
    expect(savedSteps(everySteps(3), upTo(10))).toEqual([3, 6, 9]);
    expect(savedSteps(everySteps(1), upTo(3))).toEqual([1, 2, 3]);
  });

  test('a multiple that is skipped is due at the next step, and the one after it where it belongs', () => {
    expect(
      savedSteps(
        everySteps(100),
        [99, 101, 102, 199, 200, 450].map((step) => at(step)),
      ),
    ).toEqual([101, 200, 450]);
  });

  test('a job that goes on in the middle of a span saves at the same steps as one that was never interrupted', () => {
    const begin = beginSchedule({ step: 250, nowMs: 0 });
    expect(savedSteps(everySteps(100), upTo(420, 250), begin)).toEqual([300, 400]);
  });

  test('a step that is asked about twice is due until it was saved, and then no more', () => {
    const schedule = everySteps(5);
    expect([schedule.isDue(at(5), START), schedule.isDue(at(5), START)]).toEqual([true, true]);
    expect(schedule.isDue(at(5), afterSave(START, at(5)))).toBe(false);
  });

  test('a save that failed is due again at the next step', () => {
    expect(everySteps(5).isDue(at(6), START)).toBe(true);
  });

  test('steps that are done again after a rollback in memory are not saved again', () => {
    expect(savedSteps(everySteps(5), [...upTo(6), ...upTo(10, 3)])).toEqual([5, 10]);
  });

  test('whatever steps are asked about, one save for each span in which a multiple was reached', () => {
    const steps = fc.uniqueArray(fc.integer({ min: 0, max: 500 })).map((all) => all.sort((a, b) => a - b));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), steps, (stepCount, asked) => {
        const found = savedSteps(
          everySteps(stepCount),
          asked.map((step) => at(step)),
        );
        const spans = new Set(asked.map((step) => Math.floor(step / stepCount)));
        spans.delete(0);
        expect(found.map((step) => Math.floor(step / stepCount))).toEqual([...spans]);
      }),
    );
  });
});

describe('at given steps', () => {
  test('in any order, repeated or not: due once at each', () => {
    expect(savedSteps(atSteps([7, 2, 7, 4]), upTo(20))).toEqual([2, 4, 7]);
  });

  test('steps that are skipped over come to one save at the next', () => {
    expect(savedSteps(atSteps([2, 4, 7]), [at(1), at(5), at(6), at(9)])).toEqual([5, 9]);
  });

  test('those before the step from which a job goes on are past', () => {
    expect(savedSteps(atSteps([2, 4, 7]), upTo(9, 4), beginSchedule({ step: 4, nowMs: 0 }))).toEqual([7]);
  });

  test('the list may change afterwards: the schedule does not', () => {
    const steps = [3];
    const schedule = atSteps(steps);
    steps[0] = 1;
    expect(savedSteps(schedule, upTo(4))).toEqual([3]);
  });
});

describe('every duration', () => {
  const everyMinute = everyMs(60_000);

  test('due when it has passed since the last save', () => {
    const moments = [at(1, 59_999), at(2, 60_000), at(3, 119_999), at(4, 121_000), at(5, 180_000)];
    expect(savedSteps(everyMinute, moments)).toEqual([2, 4]);
  });

  test('counted from any save, whatever it was for', () => {
    const schedule = anyOf(everyMinute, atSteps([2]));
    expect(savedSteps(schedule, [at(2, 30_000), at(3, 60_000), at(4, 90_000)])).toEqual([2, 4]);
  });

  test('a job that goes on counts from there, by its own clock', () => {
    const begin = beginSchedule({ step: 9, nowMs: 5_000_000 });
    expect(savedSteps(everyMinute, [at(10, 5_000_001), at(11, 5_060_000)], begin)).toEqual([11]);
  });
});

describe('on improvement', () => {
  const measured = (step: number, loss: number): Moment => ({ step, nowMs: 0, metrics: { loss } });
  const lower = onImprovement('loss', { better: 'lower' });

  test('lower is better: the first, and each that is below all saved', () => {
    const moments = [measured(1, 5), measured(2, 5), measured(3, 6), measured(4, 4), measured(5, 4.5)];
    expect(savedSteps(lower, moments)).toEqual([1, 4]);
  });

  test('higher is better: the first, and each that is above all saved', () => {
    const schedule = onImprovement('loss', { better: 'higher' });
    const moments = [measured(1, 5), measured(2, 4), measured(3, 6), measured(4, 6), measured(5, 7)];
    expect(savedSteps(schedule, moments)).toEqual([1, 3, 5]);
  });

  test('only by more than minDelta, also over several steps together', () => {
    const schedule = onImprovement('loss', { better: 'lower', minDelta: 1 });
    const moments = [measured(1, 5), measured(2, 4.5), measured(3, 4), measured(4, 3.75)];
    expect(savedSteps(schedule, moments)).toEqual([1, 4]);
  });

  test('steps in which it was not measured are not due', () => {
    expect(savedSteps(lower, [at(1), measured(2, 5), at(3), { ...at(4), metrics: { accuracy: 1 } }])).toEqual(
      [2],
    );
  });

  test('what was saved for another reason counts too', () => {
    const schedule = anyOf(lower, atSteps([2]));
    expect(savedSteps(schedule, [measured(1, 5), measured(2, 7), measured(3, 6)])).toEqual([1, 2]);
  });

  test('a job that goes on is measured by all checkpoints that are there', () => {
    const begin = beginSchedule({ step: 10, nowMs: 0 }, [{ loss: 3 }, {}, { loss: 2 }, { loss: 4 }]);
    expect(savedSteps(lower, [measured(11, 2.5), measured(12, 1.5)], begin)).toEqual([12]);
  });

  test('names that objects have by themselves are names like any other', () => {
    const name = 'constructor';
    const now = { step: 1, nowMs: 0, metrics: { [name]: 1 } };
    const schedule = onImprovement(name, { better: 'lower' });
    expect(schedule.isDue({ ...now, step: 2 }, START)).toBe(true);
    expect(schedule.isDue({ ...now, step: 2 }, afterSave(START, now))).toBe(false);
    expect(schedule.isDue(at(1), START)).toBe(false);
  });
});

describe('any of them', () => {
  test('due when one is', () => {
    expect(savedSteps(anyOf(everySteps(4), atSteps([1, 6])), upTo(9))).toEqual([1, 4, 6, 8]);
  });

  test('a metric that is not finite is told also when another schedule is due', () => {
    const schedule = anyOf(everySteps(1), onImprovement('loss', { better: 'lower' }));
    const now = { step: 1, nowMs: 0, metrics: { loss: Number.NaN } };
    expect(thrown(() => schedule.isDue(now, START))).toEqual(
      failure('InvalidArgument', /"loss" is NaN at step 1/),
    );
  });
});

test('parameter servers: schedules of steps ask for a step alone, and the type lets no other through', () => {
  const forServers = (schedule: StepSchedule) => schedule.isDue({ step: 10 }, { step: 9 });
  expect(forServers(anyOf(everySteps(5), atSteps([7])))).toBe(true);
  const needsTime: Schedule = anyOf(everySteps(5), everyMs(1000));
  // @ts-expect-error: a server does not know the time of the others
  expect(forServers(needsTime)).toBe(true);
  // @ts-expect-error: or what the others measure
  expect(() => forServers(onImprovement('loss', { better: 'lower' }))).not.toThrow();
});

describe('what cannot be is InvalidArgument', () => {
  const cases: [string, () => unknown, RegExp][] = [
    ['no steps between saves', () => everySteps(0), /is 0; it takes a whole number from 1/],
    ['half a step', () => everySteps(1.5), /is 1.5; it takes a whole number from 1/],
    ['no steps at all', () => atSteps([]), /at least one step/],
    ['a save before the first step', () => atSteps([3, 0]), /a step at which to save is 0/],
    ['no time', () => everyMs(0), /durationMs is 0; it takes a number above 0/],
    ['endless time', () => everyMs(Number.POSITIVE_INFINITY), /above 0/],
    ['a time that is no number', () => everyMs(Number.NaN), /is NaN/],
    ['a delta below 0', () => onImprovement('x', { better: 'lower', minDelta: -1 }), /minDelta is -1/],
    [
      'neither way',
      () => onImprovement('x', { better: 'min' as 'lower' }),
      /better is "min"; it takes lower, higher/,
    ],
    ['any of none', () => anyOf(...([] as Schedule[])), /at least one schedule/],
    ['a step below 0', () => everySteps(2).isDue(at(-1), START), /the step is -1/],
    ['a step that is no number, at steps', () => atSteps([1]).isDue(at(Number.NaN), START), /step is NaN/],
    ['a step that is no number, by time', () => everyMs(1).isDue(at(0.5), START), /step is 0.5/],
    ['a beginning that is no step', () => beginSchedule({ step: -1, nowMs: 0 }), /the step is -1/],
    ['a save at no step', () => afterSave(START, at(0.5)), /the step is 0.5/],
    ['a saved metric without a value', () => afterSave(START, { ...at(3), metrics: { m: Infinity } }), /"m"/],
    ['a metric of old that is no number', () => beginSchedule(at(1), [{ m: Number.NaN }]), /"m" is NaN/],
  ];
  test.each(cases)('%s', (_, call, message) => {
    expect(thrown(call)).toEqual(failure('InvalidArgument', message));
  });
});
