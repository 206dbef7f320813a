/**
 * The plugins in real frameworks. Each group has a file of its own, so that groups run beside each
 * other.
 */

import { beforeAll, expect, test, vi } from 'vitest';
import { longCount } from '../cloud/config.ts';
import { PACKED } from '../e2e/packed-command.ts';
import { describeOnServer, whyNone } from '../servers/server-suite.ts';
import { FRAMEWORKS_TITLE, frameworksProgram } from './frameworks-program.ts';
import { runProgram } from './run-python.ts';
import { PYTHON_ROOT, RUNNER, testModules } from './unittest-runner.ts';

/** Each takes a few minutes beside other tests. Each played incarnation takes a second. */
const TIMEOUT_MS = 1_200_000 + 10_000 * longCount(process.env);

const WHY_NO_FRAMEWORKS = await whyNone(FRAMEWORKS_TITLE, frameworksProgram, async () => undefined);

/**
 * Runs the tests in a directory of `python/tests`, in one process, because they share the import of
 * their frameworks. A skipped test is a failure, and so are fewer tests than `leastTests`.
 */
export function describeFrameworks(frameworks: string, directory: string, leastTests: number): void {
  const open = async () => ({ stop: async () => undefined });
  describeOnServer({ suite: 'frameworks', name: 'plugins', whyNone: WHY_NO_FRAMEWORKS, open }, () => {
    beforeAll(() => {
      vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
      return () => vi.unstubAllEnvs();
    });

    test(`real ${frameworks}`, { timeout: TIMEOUT_MS }, async () => {
      const args = ['-c', RUNNER, PYTHON_ROOT, testModules(directory).join(','), 'without skips'];
      const printed = await runProgram(await frameworksProgram(), args, { timeoutMs: TIMEOUT_MS });
      expect(Number(printed)).toBeGreaterThanOrEqual(leastTests);
    });
  });
}
