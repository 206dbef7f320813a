/**
 * Builds the servers that tests need, so that no test has to wait for it. What cannot be had is said; it is a failure only if
 * `HOLDFAST_REQUIRE` names it.
 *
 *   node --conditions=holdfast-source test/servers/prepare.ts
 */

import { testConfig } from './config.ts';
import { goProgram, MINIO, ServerUnavailable, VERSITYGW } from './go-program.ts';

const isRequired = testConfig(process.env).requiredSuites.has('s3');

for (const program of [MINIO, VERSITYGW]) {
  try {
    console.log(`${program.title}: ${await goProgram(program)}`);
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error;
    const what = isRequired ? 'which HOLDFAST_REQUIRE asks for' : 'so its tests will be SKIPPED';
    console.error(`${program.title} cannot be had, ${what}: ${error.message}`);
    if (isRequired) process.exitCode = 1;
  }
}
