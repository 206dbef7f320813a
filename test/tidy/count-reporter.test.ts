import { expect, test } from 'vitest';
import type { TestModule } from 'vitest/node';
import { countsLine, countTests } from '../count-reporter.ts';

function module(ok: boolean, ...states: string[]): TestModule {
  const tests = states.map((state) => ({ result: () => ({ state }) }));
  return { ok: () => ok, children: { allTests: () => tests } } as unknown as TestModule;
}

test('counts: every test once, by its state', () => {
  const modules = [module(false, 'passed', 'failed', 'skipped'), module(true, 'passed')];
  expect(countTests(modules, 0)).toEqual({ passed: 2, failed: 1, skipped: 1 });
});

test('counts: a file that failed outside its tests, a stray error and a test cut off are failures', () => {
  expect(countTests([module(false)], 0).failed).toBe(1);
  expect(countTests([module(false, 'passed')], 0).failed).toBe(1);
  expect(countTests([module(true, 'passed')], 1).failed).toBe(1);
  expect(countTests([module(false, 'pending')], 0).failed).toBe(1);
});

test('counts: the closing line', () => {
  expect(countsLine({ passed: 3, failed: 0, skipped: 0 })).toBe('3 passed, 0 failed');
  expect(countsLine({ passed: 3, failed: 1, skipped: 2 })).toBe('3 passed, 1 failed, 2 skipped');
});
