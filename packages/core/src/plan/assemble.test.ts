import { expect, test } from 'vitest';
import { WORLD_SIZE_MAX } from '../contract/ranges.ts';
import { chooseReceipts } from './assemble.ts';
import { EMPTY_STATE } from './state.ts';

test('of the receipts listed those of current incarnations count, in writer order', () => {
  const state = { ...EMPTY_STATE, worldSize: 4, incarnations: { 1: 2 } };
  const listed = [
    { writer: 3, incarnation: 0 },
    { writer: 1, incarnation: 0 },
    { writer: 1, incarnation: 2 },
    { writer: 0, incarnation: 0 },
    { writer: 9, incarnation: 0 },
  ];
  expect(chooseReceipts(listed, state)).toEqual({
    chosen: [listed[3], listed[2], listed[0]],
    missing: [2],
  });
});

test('each receipt is looked at a few times, however many writers there are', () => {
  let lookCount = 0;
  const listed = Array.from({ length: WORLD_SIZE_MAX }, (_, index) => ({
    get writer() {
      lookCount++;
      return WORLD_SIZE_MAX - 1 - index;
    },
    incarnation: 0,
  }));
  const { chosen, missing } = chooseReceipts(listed, { ...EMPTY_STATE, worldSize: WORLD_SIZE_MAX });
  expect([chosen.length, missing.length]).toEqual([WORLD_SIZE_MAX, 0]);
  expect(lookCount).toBeLessThan(4 * WORLD_SIZE_MAX);
});
