/**
 * Every call of a process to the store, in every story, meets every fault in turn. The process dies
 * before the call, after it, or while the request is on its way. Or the request or its reply is
 * lost, late or doubled. After each fault the test checks the run from outside.
 */

import { crc32c } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, FaultyStore, faultAt, LateEffects } from '@holdfast/testkit';
import { beforeAll, describe, expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import { checkInvariants, type Told, viewOfBucket } from './invariants.ts';
import { SCENARIOS, type Scenario, type Stage, saveHealthy } from './scenarios.ts';

const CALLS_MAX = 200;
/** A number higher than the calls of any story. */
const NO_CALL = 10 * CALLS_MAX;

const FAULT_NAMES = Object.keys(FAULTS) as FaultName[];
/** A process may die before any call. After a call is mostly before the next one. */
const AT_EVERY_CALL: readonly FaultName[] = ['stopBefore'];
/** In a short run each of the other faults hits one of this many calls of an operation. */
const CALLS_ONE_IN = 20;

const STORIES = Object.entries(SCENARIOS);

interface Call {
  /** Index of its story. */
  readonly story: number;
  /** Number of the call within its story. */
  readonly number: number;
  readonly operation: string;
  /** Number of earlier calls of this operation in all stories. */
  readonly turn: number;
}

/** Calls of the victims of all stories, recorded without faults. */
const calls: Call[] = [];

/**
 * In a long run every fault hits every call. In a short run neighbouring faults hit different
 * calls.
 */
function isHit({ operation, turn }: Call, name: FaultName): boolean {
  if (LONG_COUNT > 0 || AT_EVERY_CALL.includes(name)) return true;
  const count = calls.filter((each) => each.operation === operation).length;
  return (turn + FAULT_NAMES.indexOf(name)) % Math.min(CALLS_ONE_IN, count) === 0;
}

/**
 * Plays one story. Resolves to the operations that the victim called. The victim may end before
 * call `number`.
 */
async function play(scenario: Scenario, name: FaultName, number: number): Promise<string[]> {
  // A late duplicate of a request may restore a deleted object with the same bytes. That object is
  // garbage, because no reader refers to it.
  const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ hasSameBytes }) => hasSameBytes });
  const lateEffects = new LateEffects();
  const victimStore = new FaultyStore(new MemoryStore(bucket), faultAt(number, FAULTS[name]), {
    lateEffects,
  });
  const told: Told[] = [];
  const stage: Stage = { bucket, victimStore, told };
  await scenario.prepare(stage);
  const peers = scenario.peers?.(stage);
  await Promise.race([scenario.victim(stage), victimStore.stopped]);
  await peers;
  await checkInvariants(viewOfBucket(bucket), told);
  await lateEffects.releaseAll();

  // I10: a new incarnation of the job continues from any remaining state, late effects included.
  const next: Told[] = []; // a dead process may still add to `told`
  await saveHealthy({ ...stage, told: next }, { attempt: 'next-job', index: 0, count: 1 }, { version: 50n });
  expect(next.map((each) => each.outcome)).toEqual(['committed']);
  await checkInvariants(viewOfBucket(bucket), [...told, ...next]);
  return victimStore.calls.map(({ operation }) => operation);
}

beforeAll(async () => {
  for (const [story, [, scenario]] of STORIES.entries()) {
    const operations = await play(scenario, 'stopBefore', NO_CALL);
    for (const [number, operation] of operations.entries()) {
      const turn = calls.filter((each) => each.operation === operation).length;
      calls.push({ story, number, operation, turn });
    }
  }
});

describe.each(STORIES.map(([title, scenario], story) => ({ title, scenario, story })))(
  '$title',
  ({ scenario, story }) => {
    test.each(FAULT_NAMES)(
      'I0, I1, I2, I4, I5, I6, I7, I8, I9 and I10 hold when call after call meets %s',
      async (name) => {
        const ofStory = calls.filter((call) => call.story === story);
        expect(ofStory.length).toBeGreaterThan(4);
        expect(ofStory.length).toBeLessThan(CALLS_MAX);
        const due = ofStory.filter((call) => isHit(call, name));
        let hitCount = 0;
        for (const { number } of due) if ((await play(scenario, name, number)).length > number) hitCount++;
        // The number of calls varies slightly, because a waiting writer polls.
        expect(hitCount).toBeGreaterThan(due.length - 4);
      },
      60_000,
    );
  },
);

test.each(FAULT_NAMES)('in some story each operation of the store meets %s', (name) => {
  const hit = calls.filter((call) => isHit(call, name)).map(({ operation }) => operation);
  expect(new Set(hit)).toEqual(new Set(calls.map(({ operation }) => operation)));
});
