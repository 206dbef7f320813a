/**
 * The order of test files. Vitest begins with the largest files when it does not know yet how long
 * each takes. The longest tests are in small files, so one of them would run alone at the end.
 */

import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take more than twenty seconds on two cores, in the order in which they begin. Those of
 * the frameworks need the most memory, so the three do not begin together.
 */
const LONGEST = [
  'test/python/frameworks.test.ts',
  'test/python/torch.test.ts',
  'test/python/client.test.ts',
  'test/sim/sim.test.ts',
  'test/cloud/ambiguity-s3.test.ts',
  'test/artifacts/install.test.ts',
  'test/python/hf.test.ts',
  'test/e2e/demo.test.ts',
  'test/cloud/killed-writers.test.ts',
  'test/cloud/ambiguity-azure.test.ts',
  'test/e2e/certify-s3.test.ts',
  'test/counts/transfers.test.ts',
  'test/artifacts/consumers.test.ts',
  'test/artifacts/wheel.test.ts',
  'test/azure/conformance.test.ts',
  'test/e2e/cli.test.ts',
  'test/agent/chaos/chaos.test.ts',
  'test/gcs/conformance.test.ts',
  'test/servers/programs.test.ts',
  'test/cloud/lost-replies.test.ts',
  'test/cloud/races.test.ts',
  'test/e2e/cli-clouds.test.ts',
  'test/e2e/doctor-s3.test.ts',
  'test/leaks/leaks.test.ts',
  'test/crash/every-call.test.ts',
  'test/records/bombs.test.ts',
  'test/secrets/environment.test.ts',
  'test/artifacts/arm64.test.ts',
  'test/cloud/ambiguity-gcs-in-parts.test.ts',
  'test/e2e/cli-s3-bad-input.test.ts',
  'test/s3/conformance.test.ts',
  'packages/store-local/src/conformance.test.ts',
  'test/power/power-cut.test.ts',
  'test/e2e/tutorial.test.ts',
  'test/python/types.test.ts',
  'test/cloud/ambiguity-gcs.test.ts',
  'test/e2e/cli-bad-input.test.ts',
];

export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.findIndex((file) => moduleId.endsWith(`/${file}`));
      return index === -1 ? LONGEST.length : index;
    };
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}
