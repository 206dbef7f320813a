/**
 * On each real store: after SIGKILL at 60 % of a large file, the next process repeats only the
 * parts that were in flight.
 */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { checkInvariants, type RunView, type Told } from '../crash/invariants.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { filesOfResumed, playKilledAndResumed } from './resumed-uploads.ts';
import { viewOfRun } from './run-view.ts';

const TIMEOUT_MS = 120_000;
const TITLE = 'I1, I6, I10: the next process of the writer goes on with it, and nothing is left over';

/** Throws unless the run is sound and complete, and nothing of the upload is left. */
async function expectSound(view: RunView): Promise<void> {
  const told: Told[] = [
    { attempt: 'job-0', writer: 0, version: 1n, outcome: 'killed' },
    { attempt: 'job-0', writer: 0, version: 1n, outcome: 'committed' },
  ];
  await checkInvariants(view, told, filesOfResumed);
  expect(view.openUploads()).toEqual([]);
  expect(view.keys().filter((key) => key.startsWith('uploads/'))).toEqual([]);
}

for (const cloud of CLOUDS) {
  cloud.describeOn(`an upload whose process was killed on ${cloud.title}`, (server) => {
    test(
      TITLE,
      async () => {
        const run = await server().newBucket();
        await playKilledAndResumed(run, run.env);
        await expectSound(await viewOfRun(cloud, run));
      },
      TIMEOUT_MS,
    );
  });
}

// On other systems no process can tell whether the previous one has ended, and the store reports
// that it cannot resume.
test.runIf(existsSync('/proc/self/stat'))(
  `an upload whose process was killed on the local disk > ${TITLE}`,
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-resume-'));
    try {
      const path = join(directory, 'run');
      const uri = pathToFileURL(path).href;
      await playKilledAndResumed({ uri }, {});
      await expectSound(await viewOfDirectory(path, uri));
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
  TIMEOUT_MS,
);

async function viewOfDirectory(path: string, uri: string): Promise<RunView> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const names = files.map((file) => relative(path, join(file.parentPath, file.name))).sort();
  const isOwn = (name: string) => /(^|\/)\.holdfast-/.test(name);
  // The reserve that the store keeps for a full disk belongs to no upload.
  const isOfUpload = (name: string) => isOwn(name) && !name.startsWith('.holdfast-reserve');
  const store = await openStore(uri);
  return {
    violations: [],
    keys: () => names.filter((name) => !isOwn(name)),
    read: (key) => readFileSync(join(path, key)),
    // The store's other internal files belong to unfinished uploads.
    openUploads: () => names.filter(isOfUpload).map((name) => ({ key: name, token: '', partCount: 1 })),
    openStore: () => store,
  };
}
