/** The tests of the Python client, which are in `python/tests`. */

import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test, vi } from 'vitest';
import { PACKED } from '../e2e/packed-command.ts';
import { describeWithPython, runPython } from './run-python.ts';

const ROOT = fileURLToPath(new URL('../../python', import.meta.url));
const MODULES = readdirSync(`${ROOT}/tests`)
  .filter((name) => /^test_\w+\.py$/.test(name))
  .map((name) => name.replace(/\.py$/, ''));

/** As long as `runPython` allows: some files start agents. */
const TIMEOUT_MS = 60_000;

/** Prints how many tests ran. A file that closes too little is a failure as well. */
const RUNNER = `
import sys, unittest, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error", ResourceWarning)
suite = unittest.defaultTestLoader.loadTestsFromName("tests." + sys.argv[2])
result = unittest.TextTestRunner(warnings="error").run(suite)
print(result.testsRun)
sys.exit(not result.wasSuccessful())
`;

describeWithPython('the Python client', () => {
  beforeAll(() => {
    vi.stubEnv('HOLDFAST_TEST_COMMAND', JSON.stringify(PACKED));
    return () => vi.unstubAllEnvs();
  });

  test.each(MODULES)('%s', { timeout: TIMEOUT_MS }, async (module) => {
    expect(Number(await runPython(RUNNER, [ROOT, module]))).toBeGreaterThan(0);
  });
});
