/**
 * Every call that a mirror makes, to the store it copies from and to the one it copies to, meets every fault in turn. After each the
 * destination is looked at from outside, and another mirror goes on.
 */

import { isCheckpointError } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, FaultyStore, faultAt, LateEffects } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { checkInvariants, VICTIM_SETTINGS, viewOfBucket } from '../crash/invariants.ts';
import { open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

const CALLS_MAX = 200;

/** A doubled request that lingers may bring back what was deleted, with the same bytes: garbage, which nobody reads. */
const LENIENT = { mayReuseKey: ({ hasSameBytes }: { hasSameBytes: boolean }) => hasSameBytes };

/** A mirror that may never end. What it throws is one of ours. */
async function mirrorAsVictim(runs: TwoRuns, faulty: FaultyStore, side: keyof TwoRuns): Promise<void> {
  const settings = VICTIM_SETTINGS;
  const from = open(side === 'from' ? faulty : runs.from, { settings });
  const to = open(side === 'to' ? faulty : runs.to, { settings });
  try {
    await to.mirrorFrom(from);
  } catch (error) {
    if (!isCheckpointError(error)) throw error;
  }
  await Promise.all([from.close(), to.close()]);
}

/** Plays one story; `false` when the mirror ended before it came to call `number`. */
async function play(runs: TwoRuns, side: keyof TwoRuns, name: FaultName, number: number): Promise<boolean> {
  const lateEffects = new LateEffects();
  const store = new FaultyStore(new MemoryStore(runs[side]), faultAt(number, FAULTS[name]), { lateEffects });
  await Promise.race([mirrorAsVictim(runs, store, side), store.stopped]);
  await checkInvariants(viewOfBucket(runs.to), []);
  await lateEffects.releaseAll();

  await using from = open(runs.from);
  await using to = open(runs.to);
  const { copied, present, skipped } = await to.mirrorFrom(from);
  expect([...present, ...copied.map((each) => each.version)]).toEqual([1n]);
  expect(skipped).toEqual([]);
  await checkInvariants(viewOfBucket(runs.to), []); // that every byte is right, too
  return store.calls.length > number;
}

describe.each(['to', 'from'] as const)('a mirror whose calls of the store it copies %s fail', (side) => {
  test.each(Object.keys(FAULTS) as FaultName[])(
    'leaves a run that keeps I0 to I10 when call after call meets %s, and another mirror completes it',
    async (name) => {
      const { from } = twoRuns(LENIENT);
      await saveAll(from, [1n], { count: 2 });
      let number = 0;
      while (await play({ from, to: twoRuns(LENIENT).to }, side, name, number)) {
        number += 1;
        if (number > CALLS_MAX) throw new Error(`the story does not end within ${CALLS_MAX} calls`);
      }
      expect(number).toBeGreaterThan(10);
    },
    60_000,
  );
});
