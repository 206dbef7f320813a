/** Runs a file of `python/tests`. */

import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const PYTHON_ROOT = fileURLToPath(new URL('../../python', import.meta.url));

/** Names of the test files of a package below `tests`, as modules. `''`: of `tests` itself. */
export function testModules(name: string): string[] {
  return readdirSync(`${PYTHON_ROOT}/tests/${name}`)
    .filter((file) => /^test_\w+\.py$/.test(file))
    .map((file) => `${name === '' ? '' : `${name}.`}${file.replace(/\.py$/, '')}`);
}

/**
 * Takes the root, and modules with commas between them. Prints how many tests ran. A file that
 * closes too little is a failure as well. So is a skipped test if a third argument is given.
 */
export const RUNNER = `
import sys, unittest, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error", ResourceWarning)
suite = unittest.defaultTestLoader.loadTestsFromNames(["tests." + name for name in sys.argv[2].split(",")])
result = unittest.TextTestRunner(warnings="error").run(suite)
print(result.testsRun)
sys.exit(not result.wasSuccessful() or (len(sys.argv) > 3 and len(result.skipped) > 0))
`;
