/**
 * Each call of a mirror, to the source and to the destination, meets each fault in turn. After each
 * fault, the destination is checked from outside, and another mirror continues.
 */

import { isCheckpointError } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, FaultyStore, faultAt, LateEffects } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import { checkInvariants, VICTIM_SETTINGS, viewOfBucket } from '../crash/invariants.ts';
import { open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

const CALLS_MAX = 200;
/** A mirror may die at any call. */
const AT_EVERY_CALL: readonly FaultName[] = ['stopBefore'];
/** In a short run each of the other faults hits one of this many calls. */
const CALLS_ONE_IN = 6;

/**
 * A duplicated request that arrives late may restore a deleted object with the same bytes. It is
 * garbage and is never read.
 */
const LENIENT = { mayReuseKey: ({ hasSameBytes }: { hasSameBytes: boolean }) => hasSameBytes };

/** A mirror that may never end. Its errors must be `CheckpointError`s. */
async function mirrorAsVictim(runs: TwoRuns, faulty: FaultyStore, side: keyof TwoRuns): Promise<void> {
  const settings = VICTIM_SETTINGS;
  const from = open(side === 'from' ? faulty : runs.from, { settings });
  const to = open(side === 'to' ? faulty : runs.to, { settings });
  try {
    await to.admin.mirrorFrom(from);
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
  }
  await Promise.all([from.close(), to.close()]);
}

/** Plays one story. `false` if the mirror ended before its call `number`. */
async function play(runs: TwoRuns, side: keyof TwoRuns, name: FaultName, number: number): Promise<boolean> {
  const lateEffects = new LateEffects();
  const store = new FaultyStore(new MemoryStore(runs[side]), faultAt(number, FAULTS[name]), { lateEffects });
  await Promise.race([mirrorAsVictim(runs, store, side), store.stopped]);
  await checkInvariants(viewOfBucket(runs.to), []);
  await lateEffects.releaseAll();

  await using from = open(runs.from);
  await using to = open(runs.to);
  const { copied, present, skipped } = await to.admin.mirrorFrom(from);
  expect([...present, ...copied.map((each) => each.version)]).toEqual([1n]);
  expect(skipped).toEqual([]);
  await checkInvariants(viewOfBucket(runs.to), []); // checks every byte too
  return store.calls.length > number;
}

/** Neighbouring faults hit different calls in a short run. */
function firstCallOf(name: FaultName): number {
  const isSampled = LONG_COUNT === 0 && !AT_EVERY_CALL.includes(name);
  return isSampled ? Object.keys(FAULTS).indexOf(name) % CALLS_ONE_IN : 0;
}

describe.each(['to', 'from'] as const)('a mirror whose calls of the store it copies %s fail', (side) => {
  test.each(Object.keys(FAULTS) as FaultName[])(
    'leaves a run that keeps I0 to I10 when call after call meets %s, and another mirror completes it',
    async (name) => {
      const { from } = twoRuns(LENIENT);
      await saveAll(from, [1n], { count: 2 });
      let number = firstCallOf(name);
      while (await play({ from, to: twoRuns(LENIENT).to }, side, name, number)) {
        number += LONG_COUNT > 0 || AT_EVERY_CALL.includes(name) ? 1 : CALLS_ONE_IN;
        if (number > CALLS_MAX) throw new Error(`the story does not end within ${CALLS_MAX} calls`);
      }
      expect(number).toBeGreaterThan(10);
    },
    60_000,
  );
});
