/** On each real store: SIGKILL at 60 % of a large file costs the next process what was under way, and no more. */

import { expect, test } from 'vitest';
import { checkInvariants, type Told } from '../crash/invariants.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { filesOfResumed, playKilledAndResumed } from './resumed-uploads.ts';
import { viewOfRun } from './run-view.ts';

const TIMEOUT_MS = 120_000;

for (const cloud of CLOUDS) {
  cloud.describeOn(`an upload whose process was killed on ${cloud.title}`, (server) => {
    test(
      'I1, I6, I10: the next process of the writer goes on with it, and nothing is left over',
      async () => {
        const run = await server().newBucket();
        await playKilledAndResumed(run, run.env);
        const told: Told[] = [
          { attempt: 'job-0', writer: 0, version: 1n, outcome: 'killed' },
          { attempt: 'job-0', writer: 0, version: 1n, outcome: 'committed' },
        ];
        const view = await viewOfRun(cloud, run);
        await checkInvariants(view, told, filesOfResumed);
        expect(view.openUploads()).toEqual([]);
        expect(view.keys().filter((key) => key.startsWith('uploads/'))).toEqual([]);
      },
      TIMEOUT_MS,
    );
  });
}
