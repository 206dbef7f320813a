import { expect, test } from 'vitest';
import { SeededRandom } from '../seeded-random.ts';
import { FAULTS, type FaultPlan, type PlannedCall, refuse } from './fault.ts';
import { faultAt, scriptedFaults, seededFaults } from './fault-plan.ts';

function ask(plan: FaultPlan, calls: readonly [PlannedCall['operation'], string][]) {
  return calls.map(([operation, key], number) => plan({ number, operation, key }));
}

test('faultAt: exactly the call of that number', () => {
  const calls = [
    ['head', 'a'],
    ['head', 'a'],
    ['head', 'a'],
  ] as const;
  expect(ask(faultAt(1, FAULTS.stall), [...calls.map(([o, k]) => [o, k] as [typeof o, string])])).toEqual([
    undefined,
    FAULTS.stall,
    undefined,
  ]);
});

test('scriptedFaults: a step hits the calls that match it, after those it skips and as often as it says', () => {
  const full = refuse('StorageFull');
  const plan = scriptedFaults(
    { operation: 'create', key: /^catalog\//, skip: 1, times: 2, fault: FAULTS.loseReply },
    { operation: ['create', 'head'], key: 'x', fault: FAULTS.delay },
    { operation: 'deleteMany', fault: full },
  );
  const faults = ask(plan, [
    ['create', 'catalog/1'], // Skipped.
    ['create', 'other'],
    ['get', 'catalog/1'],
    ['create', 'catalog/2'],
    ['create', 'catalog/3'],
    ['create', 'catalog/4'], // Used up.
    ['head', 'x'],
    ['create', 'x'], // Used up.
    ['head', 'xy'],
    ['deleteMany', 'anything'],
  ]);
  const none = undefined;
  const { loseReply, delay } = FAULTS;
  expect(faults).toEqual([none, none, none, loseReply, loseReply, none, delay, none, none, full]);
});

test('seededFaults: the same seed gives the same faults, at about the rates given', () => {
  const rates = { loseReply: 0.1, delay: 0.2 };
  const calls = Array.from({ length: 5000 }, () => ['head', 'a'] as [PlannedCall['operation'], string]);
  const plan = (seed: number) => seededFaults(new SeededRandom(seed), { rates, lateAfterCallsMax: 3 });
  const faults = ask(plan(9), calls);
  expect(ask(plan(9), calls)).toEqual(faults);
  expect(ask(plan(10), calls)).not.toEqual(faults);
  const count = (effect: string) => faults.filter((fault) => fault?.effect === effect).length;
  expect(Math.abs(count('once') - 500)).toBeLessThan(100);
  expect(Math.abs(count('late') - 1000)).toBeLessThan(150);
  const lateness = new Set(faults.flatMap((fault) => (fault ? [fault.lateAfterCalls] : [])));
  expect(lateness).toEqual(new Set([1, 2, 3]));
});

test('seededFaults: rates that are negative or exceed 1 together are refused', () => {
  const random = new SeededRandom(1);
  expect(() => seededFaults(random, { rates: { delay: 0.6, stall: 0.6 } })).toThrow('at most 1');
  expect(() => seededFaults(random, { rates: { delay: -0.1 } })).toThrow('not be negative');
});
