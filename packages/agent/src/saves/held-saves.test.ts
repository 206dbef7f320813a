import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { HELD_MS_MAX, HeldSaves } from './held-saves.ts';
import type { SaveJob } from './save-job.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function job(saveId: string): SaveJob {
  return { facts: { saveId } } as SaveJob;
}

function heldSaves() {
  const begun: string[] = [];
  const saves: HeldSaves = new HeldSaves(({ facts }) => {
    const others = ['2', '3', '4'].filter((id) => saves.has(job(id)));
    begun.push([facts.saveId, ...others].join(' before '));
  });
  return { begun, saves };
}

test('saves are held until all that they follow have come, and begin in their order', () => {
  const { begun, saves } = heldSaves();
  saves.add(job('2'), ['0', '1']);
  saves.add(job('3'), []);
  for (const saveId of ['0', 'another']) saves.note(saveId);
  saves.named('1');
  expect([begun, saves.has(job('2')), saves.has(job('3'))]).toEqual([[], true, true]);
  saves.note('1');
  expect([begun, saves.has(job('2'))]).toEqual([['2 before 3', '3'], false]);
  saves.add(job('4'), []);
  expect(begun.at(-1)).toBe('4');
});

test('saves begin after half a minute if their trainer is frozen, and not after the agent has ended', () => {
  const { begun, saves } = heldSaves();
  saves.add(job('2'), ['1']);
  vi.advanceTimersByTime(HELD_MS_MAX - 1);
  expect(begun).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(begun).toEqual(['2']);
  saves.add(job('3'), ['1']);
  saves.clear();
  vi.advanceTimersByTime(HELD_MS_MAX);
  expect([begun, vi.getTimerCount()]).toEqual([['2'], 0]);
});
