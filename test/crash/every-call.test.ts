/**
 * Every call that a process makes to the store, in every story, meets every fault in turn: the process dies before it, after it or with
 * the request on its way; request or reply are lost, late, or doubled. After each the run is looked at from outside.
 */

import { crc32c } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, FaultyStore, faultAt, LateEffects } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { checkInvariants, type Told, viewOfBucket } from './invariants.ts';
import { SCENARIOS, type Scenario, type Stage, saveHealthy } from './scenarios.ts';

const CALLS_MAX = 200;

/** Plays one story; `false` when the victim ended before it came to call `number`. */
async function play(scenario: Scenario, name: FaultName, number: number): Promise<boolean> {
  // A doubled request that lingers may bring back what was deleted, with the same bytes: garbage, which nobody reads.
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

  // I10: whatever is left, late effects included, a new incarnation of the job goes on from it.
  const next: Told[] = []; // of its own: a dead process may still find out that nobody answers it
  await saveHealthy({ ...stage, told: next }, { attempt: 'next-job', index: 0, count: 1 }, { version: 50n });
  expect(next.map((each) => each.outcome)).toEqual(['committed']);
  await checkInvariants(viewOfBucket(bucket), [...told, ...next]);
  return victimStore.calls.length > number;
}

describe.each(Object.entries(SCENARIOS))('%s', (_, scenario) => {
  test.each(Object.keys(FAULTS) as FaultName[])(
    'I0, I1, I2, I4, I5, I6, I7, I8, I9 and I10 hold when call after call meets %s',
    async (name) => {
      let number = 0;
      while (await play(scenario, name, number)) {
        number++;
        if (number > CALLS_MAX) throw new Error(`the story does not end within ${CALLS_MAX} calls`);
      }
      expect(number).toBeGreaterThan(4);
    },
    60_000,
  );
});
