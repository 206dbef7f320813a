/** The tests of the Python client, which are in `python/tests`. */

import { beforeAll, expect, test, vi } from 'vitest';
import { PACKED } from '../e2e/packed-command.ts';
import { describeWithPython, runPython } from './run-python.ts';
import { PYTHON_ROOT, RUNNER, testModules } from './unittest-runner.ts';

/** As long as `runPython` allows: some files start agents. */
const TIMEOUT_MS = 60_000;

describeWithPython('the Python client', () => {
  beforeAll(() => {
    vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
    return () => vi.unstubAllEnvs();
  });

  test.each(testModules(''))('%s', { timeout: TIMEOUT_MS }, async (module) => {
    expect(Number(await runPython(RUNNER, [PYTHON_ROOT, module]))).toBeGreaterThan(0);
  });
});
