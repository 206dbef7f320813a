/**
 * torchelastic's end-to-end scenarios, with four processes and its numbers: 11 to 30, with the sum
 * 410.
 */

import { afterAll, expect, test } from 'vitest';
import { countsOf, twoAndTwo, Workers } from './worker.ts';

const workers = new Workers();

afterAll(() => workers[Symbol.asyncDispose]());

test('four workers share the data: each sees every fourth number, and all have the sum', async () => {
  expect(await workers.train(twoAndTwo({}))).toEqual([
    { type: 'trained', rank: 0, samples: [11, 15, 19, 23, 27], totalSum: 410 },
    { type: 'trained', rank: 1, samples: [12, 16, 20, 24, 28], totalSum: 410 },
    { type: 'trained', rank: 2, samples: [13, 17, 21, 25, 29], totalSum: 410 },
    { type: 'trained', rank: 3, samples: [14, 18, 22, 26, 30], totalSum: 410 },
  ]);
});

test('a recoverable error in two of four: each sees six samples, one of them again, and the sum is right', async () => {
  const outcomes = await workers.train(twoAndTwo({ hook: 'recoverable-once' }));
  expect(countsOf(outcomes)).toEqual(Array(4).fill([6, 410]));
});

test('a recoverable error without rollback: each sees five samples, none of them again', async () => {
  const outcomes = await workers.train(twoAndTwo({ hook: 'recoverable-once' }, { state: 'no-rollback' }));
  expect(countsOf(outcomes)).toEqual(Array(4).fill([5, 410]));
});

test('an error that is not recoverable: the two that have it end with it, and the others do all that is left', async () => {
  const outcomes = await workers.train(twoAndTwo({ hook: 'foreign-error' }, { minWorkers: 2 }));
  const failed = { type: 'failed', name: 'TypeError', message: 'this step cannot be done' };
  expect(countsOf(outcomes)).toEqual([[9, 410], [9, 410], failed, failed]);
});

test('a third sync that fails in two of four, when workers meet after each step: nothing is seen again', async () => {
  const all = { minWorkers: 2, meetsOften: true };
  const outcomes = await workers.train(twoAndTwo({ state: 'fails-third-sync' }, all));
  expect(countsOf(outcomes)).toEqual(Array(4).fill([5, 410]));
});

test('two of four fail again and again: after five failures they give up, and the others, who saw 8 + 5, have the sum', async () => {
  const outcomes = await workers.train(
    twoAndTwo({ hook: 'recoverable-always', failuresMax: 5 }, { minWorkers: 2 }),
  );
  const failed = {
    type: 'failed',
    name: 'NonRetryableException',
    message: 'Exceeded max number of recoverable failures: 5',
  };
  expect(countsOf(outcomes)).toEqual([[8 + 5, 410], [8 + 5, 410], failed, failed]);
});

test('two of four are killed: the others do all that is left', async () => {
  const outcomes = await workers.train(twoAndTwo({ hook: 'kill' }, { minWorkers: 2 }));
  const killed = { type: 'killed', signal: 'SIGKILL' };
  expect(countsOf(outcomes)).toEqual([[9, 410], [9, 410], killed, killed]);
});

test('two of four are frozen: the others wait for one timeout, and do all that is left; the two then hear that training is over', async () => {
  const outcomes = await workers.train(twoAndTwo({ hook: 'freeze' }, { minWorkers: 2, timeoutMs: 3000 }));
  // Two steps of four workers, 11 to 18, give 116. The third step is undone.
  expect(countsOf(outcomes)).toEqual([
    [9, 410],
    [9, 410],
    [3, 116],
    [3, 116],
  ]);
});
