import { crc32c, createCheckpointManager, isCheckpointError } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { EarlyStopper, type StopRule } from './early-stopper.ts';

const LOSS: StopRule = { metric: 'loss', mode: 'min', patience: 2 };

describe('a rule of patience', () => {
  test('it stops at the evaluation that is the last of so many in a row without an improvement', () => {
    expect(answers(LOSS, [3, 2, 2.5, 2.1])).toEqual([false, false, false, true]);
    expect(answers({ ...LOSS, patience: 1 }, [3, 3])).toEqual([false, true]);
  });

  test('an improvement begins the count anew, also after it has said to stop', () => {
    expect(answers(LOSS, [3, 4, 2, 4, 1, 1, 1, 0])).toEqual([
      false,
      false,
      false,
      false,
      false,
      false,
      true,
      false,
    ]);
  });

  test('an improvement of at most minDelta does not count, however often it happens', () => {
    expect(answers({ ...LOSS, minDelta: 0.5 }, [3, 2.5, 2.25])).toEqual([false, false, false]);
    expect(answers({ ...LOSS, minDelta: 0.5 }, [3, 2.75, 2.5])).toEqual([false, false, true]);
    expect(answers(LOSS, [3, 2.9, 2.8, 2.7])).toEqual([false, false, false, false]);
  });

  test('max: higher is better', () => {
    expect(answers({ metric: 'loss', mode: 'max', patience: 1 }, [1, 2, 2])).toEqual([false, false, true]);
  });

  test('an evaluation without the metric is refused by its name, and not added', () => {
    const stopper = new EarlyStopper(LOSS);
    expect(refusal(() => stopper.add({ version: 7, metrics: { auc: 1 } }))).toBe(
      'InvalidArgument: the evaluation of version 7 lacks the metric "loss"; there are: auc',
    );
    expect(stopper.history).toEqual([]);
    expect(stopper.shouldStop).toBe(false);
  });

  test('a metric that is not a finite number is refused by its name, and the evaluation is not added', () => {
    const stopper = new EarlyStopper(LOSS);
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, '1' as unknown as number]) {
      const add = () => stopper.add({ version: 7, metrics: { loss: 1, auc: value } });
      const shown = typeof value === 'string' ? `"${value}"` : value;
      expect(refusal(add)).toBe(`InvalidArgument: metric "auc" is ${shown}; it takes a finite number`);
    }
    expect(stopper.history).toEqual([]);
  });

  test.each([
    [{ patience: 0 }, 'patience is 0'],
    [{ patience: 1.5 }, 'patience is 1.5'],
    [{ minDelta: -1 }, 'minDelta is -1'],
    [{ minDelta: Number.NaN }, 'minDelta is NaN'],
    [{ metric: '' }, 'no metric to rank by'],
    [{ mode: 'best' as 'min' }, 'the mode of metric "loss" is "best"'],
  ])('%o is refused', (wrong, message) => {
    expect(refusal(() => new EarlyStopper({ ...LOSS, ...wrong }))).toContain(`InvalidArgument: ${message}`);
  });
});

describe('a function of the caller', () => {
  test('it is asked once after each evaluation, with all that there were, oldest first', () => {
    const asked: string[] = [];
    const stopper = new EarlyStopper((history) => {
      asked.push(history.map(({ version, metrics }) => `${version}:${metrics['auc']}`).join(' '));
      return (history.at(-1)?.metrics['auc'] ?? 0) > 0.8;
    });
    expect(stopper.add({ version: 1, metrics: { auc: 0.5 } })).toBe(false);
    expect(stopper.add({ version: 2n, metrics: { auc: 0.9 } })).toBe(true);
    expect([stopper.shouldStop, stopper.shouldStop]).toEqual([true, true]);
    expect(asked).toEqual(['1:0.5', '1:0.5 2:0.9']);
  });

  test('numbers that the caller changes later stay as they were', () => {
    const stopper = new EarlyStopper(() => false);
    const metrics = { auc: 0.5 };
    stopper.add({ version: 1, metrics });
    metrics.auc = 0.9;
    expect(stopper.history).toEqual([{ version: 1, metrics: { auc: 0.5 } }]);
  });

  test('an answer that is neither true nor false is refused: a promise would always be true', () => {
    const late = new EarlyStopper((async () => false) as unknown as () => boolean);
    expect(refusal(() => late.add({ version: 1, metrics: {} }))).toContain('returned a promise');
    const none = new EarlyStopper((() => undefined) as unknown as () => boolean);
    expect(refusal(() => none.add({ version: 1, metrics: {} }))).toContain('returned undefined');
  });

  test('what it throws is the caller’s', () => {
    const stopper = new EarlyStopper(() => {
      throw new RangeError('no such series');
    });
    expect(() => stopper.add({ version: 1, metrics: {} })).toThrow(RangeError);
  });
});

describe('a job that was restarted', () => {
  test('goes on counting where the checkpoints of the run leave off', async () => {
    await using run = await runOf({ loss: 3 }, { loss: 2 }, { auc: 1 }, { loss: 2.5 });
    const stopper = await EarlyStopper.fromCheckpoints(run, LOSS);
    expect(stopper.history.map(({ version }) => version)).toEqual([1n, 2n, 4n]);
    expect(stopper.shouldStop).toBe(false);
    expect(stopper.add({ version: 5, metrics: { loss: 2 } })).toBe(true);
  });

  test('may be told to stop at once', async () => {
    await using run = await runOf({ loss: 1 }, { loss: 2 }, { loss: 2 });
    expect((await EarlyStopper.fromCheckpoints(run, LOSS)).shouldStop).toBe(true);
  });

  test('a function sees all that has any metric, and is not asked about a run that has none', async () => {
    await using run = await runOf({ loss: 3 }, {}, { auc: 1 });
    const stopper = await EarlyStopper.fromCheckpoints(run, (history) => history.length === 2);
    expect(stopper.shouldStop).toBe(true);
    await using empty = await runOf();
    const unasked = await EarlyStopper.fromCheckpoints(empty, () => true);
    expect(unasked.shouldStop).toBe(false);
  });

  test('what a rollback left behind is no part of its history', async () => {
    await using run = await runOf({ loss: 3 }, { loss: 1 });
    await run.admin.rollback({ to: 1, reason: 'the loss of version 2 was measured on the training data' });
    const stopper = await EarlyStopper.fromCheckpoints(run, LOSS);
    expect(stopper.history.map(({ version }) => version)).toEqual([1n]);
  });
});

function answers(rule: StopRule, losses: readonly number[]): boolean[] {
  const stopper = new EarlyStopper(rule);
  return losses.map((loss, index) => stopper.add({ version: index, metrics: { loss } }));
}

function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    if (isCheckpointError(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
  throw new Error('it did not fail');
}

/** Versions from 1 on, with these metrics. */
async function runOf(...evaluations: Record<string, number>[]) {
  const store = new MemoryStore(new MemoryBucket({ crc32c }));
  const run = createCheckpointManager({ store, settings: { bufferBytes: 16 * 1024 * 1024 } });
  for (const [index, metrics] of evaluations.entries()) {
    await run.save({ version: index + 1, buffers: { weights: Uint8Array.of(index) }, metrics });
  }
  return run;
}
