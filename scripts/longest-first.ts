/**
 * The order of test files. Vitest begins with the largest files when it does not know yet how long
 * each takes. The longest tests are in small files, so one of them would run alone at the end.
 */

import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take more than twenty seconds on two cores, in any project. */
const LONGEST = [
  'test/python/frameworks.test.ts',
  'test/cloud/ambiguity-s3.test.ts',
  'test/e2e/demo.test.ts',
  'test/cloud/ambiguity-azure.test.ts',
  'test/sim/sim.test.ts',
  'test/cloud/killed-writers.test.ts',
  'test/records/bombs.test.ts',
  'test/python/client.test.ts',
  'test/artifacts/install.test.ts',
  'test/crash/every-call.test.ts',
  'test/cloud/races.test.ts',
  'test/cloud/ambiguity-gcs.test.ts',
  'test/e2e/certify-s3.test.ts',
  'test/cloud/lost-replies.test.ts',
  'test/artifacts/consumers.test.ts',
  'test/artifacts/wheel.test.ts',
  'test/servers/programs.test.ts',
  'test/e2e/tutorial.test.ts',
  'test/e2e/cli.test.ts',
  'test/cloud/bad-network.test.ts',
  'test/counts/transfers.test.ts',
];

export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLongest = ({ moduleId }: TestSpecification) =>
      LONGEST.some((file) => moduleId.endsWith(`/${file}`));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLongest), ...sorted.filter((file) => !isLongest(file))];
  }
}
