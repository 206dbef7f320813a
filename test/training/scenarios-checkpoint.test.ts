/**
 * torchelastic's scenarios with a checkpoint after every step, on local disk and in a bucket. The
 * numbers are the same as without checkpoints. Every step that all workers completed is saved once.
 * No undone step is saved.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { deserialize } from 'node:v8';
import type { TrainingCheckpoint } from '@holdfast/training';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import { bucketPlace, type CheckpointPlace, directoryPlace, localRunPlace } from './checkpoint-place.ts';
import type { SumSnapshot } from './sum-state.ts';
import { countsOf, type OrderPart, twoAndTwo, WORKER_COUNT, Workers } from './worker.ts';

const workers = new Workers();

afterAll(() => workers[Symbol.asyncDispose]());

/** Checkpoints, newest first: version, its sum, and how many of the 20 numbers had been seen. */
type Kept = readonly (readonly [version: bigint, totalSum: number, seenCount: number])[];

/** Saved by four workers, all of them to the end: each step has four numbers. */
const BY_FOUR: Kept = [
  [4n, 410, 20],
  [3n, 296, 16],
  [2n, 198, 12],
  [1n, 116, 8],
  [0n, 50, 4],
];

/** Saved by four workers, and after two steps by the two that were left. */
const BY_FOUR_THEN_TWO: Kept = [
  [7n, 410, 20],
  [6n, 351, 18],
  [5n, 296, 16],
  [4n, 245, 14],
  [3n, 198, 12],
  [2n, 155, 10],
  [1n, 116, 8],
  [0n, 50, 4],
];

async function keptIn(place: CheckpointPlace): Promise<Kept> {
  await using open = await place.open();
  const versions = (await open.manager.list()).map(({ version }) => version);
  const checkpoints = await Promise.all(versions.map((version) => open.manager.get(version)));
  return await Promise.all(checkpoints.map(contentOf)); // before the manager is closed
}

async function contentOf(checkpoint: TrainingCheckpoint | null): Promise<Kept[number]> {
  if (checkpoint === null) throw new Error('a checkpoint that is listed is not there');
  const bytes = await buffer(checkpoint.openInputStream('default'));
  const { totalSum, reachedIndex } = deserialize(bytes) as SumSnapshot;
  return [checkpoint.version, totalSum, reachedIndex + 1];
}

/** `begin` makes a place without checkpoints. */
function scenarios(begin: () => Promise<CheckpointPlace>): void {
  test('all four are killed in the third step: two checkpoints; then each sees three more samples', async () => {
    const place = await begin();
    const { checkpoints } = place;
    expect(await keptIn(place)).toEqual([]);
    const crashed = await workers.train(Array(WORKER_COUNT).fill({ checkpoints, hook: 'kill' }));
    expect(crashed).toEqual(Array(WORKER_COUNT).fill({ type: 'killed', signal: 'SIGKILL' }));
    expect(await keptIn(place)).toEqual(BY_FOUR.slice(-2));

    const trained = await workers.train(Array(WORKER_COUNT).fill({ checkpoints }));
    expect(trained).toEqual([
      { type: 'trained', rank: 0, samples: [19, 23, 27], totalSum: 410 },
      { type: 'trained', rank: 1, samples: [20, 24, 28], totalSum: 410 },
      { type: 'trained', rank: 2, samples: [21, 25, 29], totalSum: 410 },
      { type: 'trained', rank: 3, samples: [22, 26, 30], totalSum: 410 },
    ]);
    expect(await keptIn(place)).toEqual(BY_FOUR);
  });

  test('a recoverable error in two of four: each sees six samples; the step that was undone is saved once, when it is done', async () => {
    const place = await begin();
    const { checkpoints } = place;
    const outcomes = await workers.train(twoAndTwo({ hook: 'recoverable-once' }, { checkpoints }));
    expect(countsOf(outcomes)).toEqual(Array(4).fill([6, 410]));
    expect(await keptIn(place)).toEqual(BY_FOUR);
  });

  test('an error that is not recoverable: the two that have it end with it, and the others save on', async () => {
    const place = await begin();
    const { checkpoints } = place;
    const outcomes = await workers.train(
      twoAndTwo({ hook: 'foreign-error' }, { checkpoints, minWorkers: 2 }),
    );
    const failed = { type: 'failed', name: 'TypeError', message: 'this step cannot be done' };
    expect(countsOf(outcomes)).toEqual([[9, 410], [9, 410], failed, failed]);
    expect(await keptIn(place)).toEqual(BY_FOUR_THEN_TWO);
  });

  test('a third sync that fails in two of four, when workers meet after each step: nothing is seen again, nor saved again', async () => {
    const place = await begin();
    const { checkpoints } = place;
    const all: OrderPart = { checkpoints, minWorkers: 2, meetsOften: true };
    const outcomes = await workers.train(twoAndTwo({ state: 'fails-third-sync' }, all));
    expect(countsOf(outcomes)).toEqual(Array(4).fill([5, 410]));
    expect(await keptIn(place)).toEqual(BY_FOUR);
  });

  test('two of four fail again and again: until they give up nothing is saved; the others, who saw 8 + 5, save on', async () => {
    const place = await begin();
    const { checkpoints } = place;
    const others: OrderPart = { hook: 'recoverable-always', failuresMax: 5 };
    const outcomes = await workers.train(twoAndTwo(others, { checkpoints, minWorkers: 2 }));
    const message = 'Exceeded max number of recoverable failures: 5';
    const failed = { type: 'failed', name: 'NonRetryableException', message };
    expect(countsOf(outcomes)).toEqual([[8 + 5, 410], [8 + 5, 410], failed, failed]);
    expect(await keptIn(place)).toEqual(BY_FOUR_THEN_TWO);
  });

  test('rank 0, which saves, and rank 1 are killed in the third step: the next rank 0 saves on', async () => {
    const place = await begin();
    const order: OrderPart = { checkpoints: place.checkpoints, minWorkers: 2 };
    const killed: OrderPart = { ...order, hook: 'kill' };
    const outcomes = await workers.train([killed, killed, order, order]);
    expect(outcomes.slice(2)).toEqual([
      { type: 'trained', rank: 0, samples: [13, 17, 21, 19, 21, 23, 25, 27, 29], totalSum: 410 },
      { type: 'trained', rank: 1, samples: [14, 18, 22, 20, 22, 24, 26, 28, 30], totalSum: 410 },
    ]);
    expect(await keptIn(place)).toEqual(BY_FOUR_THEN_TWO);
  });
}

/** Scenarios that save beside the training, which needs a run. */
function scenariosInRuns(begin: () => Promise<CheckpointPlace>): void {
  scenarios(begin);

  test('ranks 0 and 1 are told to leave in the third step: that step is saved, and the two that are left train on', async () => {
    const place = await begin();
    const order: OrderPart = { checkpoints: place.checkpoints, minWorkers: 2 };
    const told: OrderPart = { ...order, hook: 'preempt' };
    const outcomes = await workers.train([told, told, order, order]);
    expect(outcomes.slice(0, 2)).toEqual([
      { type: 'trained', rank: 0, samples: [11, 15, 19], totalSum: 198 },
      { type: 'trained', rank: 1, samples: [12, 16, 20], totalSum: 198 },
    ]);
    // The first worker at the barrier decides whether they go back a step.
    const others = outcomes.slice(2).map((each) => each.type === 'trained' && [each.rank, each.totalSum]);
    expect(others).toEqual([
      [0, 410],
      [1, 410],
    ]);
    const kept = await keptIn(place);
    expect(kept.slice(-3)).toEqual(BY_FOUR.slice(-3));
    expect(kept[0]?.slice(1)).toEqual([410, 20]);
  });
}

function scratchDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-training-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return join(directory, 'checkpoints');
}

describe('in directories', () => scenarios(async () => directoryPlace(scratchDirectory())));

describe('in a run on local disk', () => scenariosInRuns(async () => localRunPlace(scratchDirectory())));

describeOnS3('in a run in a bucket', (server) => {
  scenariosInRuns(async () => bucketPlace(await server().newBucket()));
});
