/** `pnpm check`: format, lint, types, boundaries, tidy. Changes nothing. */

import { CHECKS, runSteps, TIDY } from './steps.ts';

const failed = runSteps([...CHECKS, TIDY]);
console.log(failed.length === 0 ? '\nall checks passed' : `\nfailed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
