/** The tests of the Python client, which are in `python/tests`. */

import { beforeAll, expect, test, vi } from 'vitest';
import { PACKED } from '../e2e/packed-command.ts';
import { interpreter } from './interpreters.ts';
import { describeWithPython, runProgram, runPython } from './run-python.ts';
import { PYTHON_ROOT, RUNNER, testModules } from './unittest-runner.ts';

/** As long as `runPython` allows: some files start agents. */
const TIMEOUT_MS = 60_000;

const NEWER = '3.12';
/** They need no agent of their own. */
const QUICK = [
  'arrays',
  'deadlines',
  'interrupted',
  'order',
  'reading',
  'reconnect',
  'run_pool',
  'saving',
].map((name) => `test_${name}`);

describeWithPython('the Python client', () => {
  beforeAll(() => {
    vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
    return () => vi.unstubAllEnvs();
  });

  // A newer Python runs signal handlers at other moments, and has other warnings.
  const newer = interpreter(NEWER);
  test.runIf(newer)(`the quick ones on Python ${NEWER}`, { timeout: TIMEOUT_MS }, async () => {
    const args = ['-c', RUNNER, PYTHON_ROOT, QUICK.join(',')];
    expect(Number(await runProgram(newer ?? '', args, { timeoutMs: TIMEOUT_MS }))).toBeGreaterThan(140);
  });

  test.each(testModules(''))('%s', { timeout: TIMEOUT_MS }, async (module) => {
    expect(Number(await runPython(RUNNER, [PYTHON_ROOT, module]))).toBeGreaterThan(0);
  });
});
