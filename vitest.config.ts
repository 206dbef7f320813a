import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import LongestFirst from './scripts/longest-first.ts';
import { withWorkers } from './test/with-workers/changes.ts';

// Without 'module': what it leads to in some packages is for bundlers, and Node cannot load it.
const conditions = ['holdfast-source', 'node', 'import', 'default'];

/** Directories of tests that run many files in one process. None of them needs the packed command. */
const SHARED = 'test/{bad-input,direct-http,golden,manager,mirror,transfer}/**/*.test.ts';

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    reporters: ['default', './test/count-reporter.ts'],
    // Many tests start processes, and other tests keep the machine busy.
    testTimeout: 60_000,
    sequence: { sequencer: LongestFirst },
    // Tests often wait for servers and processes: two files at a time leave an eighth of two cores idle.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          // A process for each of these small files would cost more than its tests.
          isolate: false,
          include: [
            'packages/{cloud-http,core,direct-http,wire,testkit}/src/**/*.test.ts',
            'scripts/**/*.test.ts',
          ],
        },
      },
      {
        extends: true,
        test: {
          name: 'packages',
          isolate: false,
          include: [
            'packages/{agent,elasticdl,fleet,local-files,opentelemetry,store-*,stores,training,cli,ui}/{src,page}/**/*.test.ts',
          ],
        },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          // Some leave calls of a dead process behind. They must not fail in the middle of the next file.
          isolate: false,
          include: [SHARED],
        },
      },
      {
        extends: true,
        test: {
          name: 'stores',
          globalSetup: ['test/e2e/pack-first.ts'],
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          exclude: ['**/node_modules/**', SHARED, 'test/tidy.test.ts', 'test/tidy/**'],
        },
      },
      {
        extends: true,
        plugins: [withWorkers()],
        test: {
          name: 'workers',
          setupFiles: ['test/with-workers/set-up.ts'],
          // Not those that move a clock by hand or count what their own thread hashes.
          include: [
            'test/cloud/bad-network.test.ts',
            'test/transfer/{download,file-stream,known-files,lending,random-reading}.test.ts',
            'test/transfer/{second-reading,upload,upload-faults,verify}.test.ts',
            'test/manager/{finished-objects,mapped-sources,open-files,output-streams}.test.ts',
            'test/manager/{random-reading,resume,resume-faults,saving}.test.ts',
          ],
        },
      },
      { extends: true, test: { name: 'tidy', include: ['test/tidy.test.ts', 'test/tidy/**/*.test.ts'] } },
    ],
  },
});
