/**
 * Counts tests. The reporter writes the counts to the file that HOLDFAST_TEST_COUNTS names, and
 * `scripts/test.ts` prints them at its end. Without that variable they are printed as the last
 * line.
 */

import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

export function countsLine({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/**
 * A file that failed outside its tests (an import that throws, a failing hook) counts as one
 * failure.
 */
export function countTests(modules: readonly TestModule[], unhandledErrorCount: number): TestCounts {
  const counts: TestCounts = { passed: 0, failed: unhandledErrorCount, skipped: 0 };
  for (const module of modules) {
    const failedBefore = counts.failed;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      // A test that is still pending at the end of the run was interrupted.
      counts[state === 'pending' ? 'failed' : state]++;
    }
    if (!module.ok() && counts.failed === failedBefore) counts.failed++;
  }
  return counts;
}

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = countTests(modules, unhandledErrors.length);
    if (counts.passed + counts.failed === 0) process.exitCode = 1;
    const file = process.env['HOLDFAST_TEST_COUNTS'];
    if (file) writeFileSync(file, JSON.stringify(counts));
    else process.once('exit', () => console.log(countsLine(counts)));
  }
}
