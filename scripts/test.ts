/**
 * `npm test`: build, packages, checks, servers and every test. The last line says how many tests
 * passed and failed. A check that fails counts as one failed test.
 */

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { countsLine, type TestCounts } from '../test/count-reporter.ts';
import { beginStep, CHECKS, PACK, runStep, runSteps, SERVERS } from './steps.ts';

/** Every test file runs in a new process, which would compile vitest and the SDKs again. */
const COMPILE_CACHE = fileURLToPath(new URL('../node_modules/.cache/holdfast-vitest', import.meta.url));

function runTests(vitestArgs: readonly string[]): TestCounts {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-counts-'));
  const file = join(directory, 'counts.json');
  try {
    const step = { name: 'tests', command: ['vitest', 'run', ...vitestArgs] } as const;
    const succeeded = runStep(step, {
      NODE_COMPILE_CACHE: COMPILE_CACHE,
      ...process.env,
      HOLDFAST_TEST_COUNTS: file,
    });
    if (!existsSync(file)) return { passed: 0, failed: 1, skipped: 0 };
    const counts = JSON.parse(readFileSync(file, 'utf8')) as TestCounts;
    // vitest may fail for a reason that no test shows, and a run without tests is a failure.
    if (counts.failed === 0 && (!succeeded || counts.passed === 0)) counts.failed = 1;
    return counts;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

// With an empty cache, much of it waits for the network.
const servers = beginStep(SERVERS);
const failedChecks = runSteps([PACK, ...CHECKS]);
if (!(await servers)) failedChecks.push(SERVERS.name);
const counts = runTests(process.argv.slice(2));
if (failedChecks.length > 0) console.log(`failed checks: ${failedChecks.join(', ')}`);
counts.failed += failedChecks.length;
process.exitCode = counts.failed > 0 ? 1 : 0;
console.log(countsLine(counts));
