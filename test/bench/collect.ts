/**
 * `bench collect`: counts the requests and the time to delete what a dead attempt left in MinIO.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createCheckpointManager, type ObjectStore, type SweepResult } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { newBucketOf } from '../servers/s3-access.ts';
import { startMinio } from '../servers/s3-servers.ts';
import type { TestBucket } from '../servers/test-bucket.ts';
import { say } from './options.ts';
import { isMet, machineText, markdownTable, publish, type Verdict, verdictTable } from './results.ts';

const OBJECTS = 10_000;
const CHECKPOINTS = 100;
const CREATED_AT_ONCE = 32;
const DELETE_REQUESTS_MAX = 20;

/** The default pace, and as fast as the store allows. */
const PACES = [1000, 1_000_000] as const;

interface Collected {
  readonly deletesPerSecondMax: number;
  readonly swept: Pick<SweepResult, 'objectCount' | 'freedBytes'>;
  readonly deleteRequests: number;
  readonly wallMs: number;
}

/**
 * Prints a table and writes `collect.json` and `.md`. Resolves to false if it needs too many
 * requests.
 */
export async function benchCollect(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string' },
      out: { type: 'string' },
      'from-sources': { type: 'boolean' },
    },
  });
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-bench-'));
  const minio = await startMinio({ directory });
  try {
    const collected: Collected[] = [];
    for (const pace of PACES) collected.push(await collectOnce(await newBucketOf(minio), pace));
    const verdicts: Verdict[] = [
      {
        what: `delete requests for ${OBJECTS} objects`,
        values: collected.map(({ deleteRequests }) => deleteRequests),
        wanted: { atMost: DELETE_REQUESTS_MAX },
      },
    ];
    const conditions = `${machineText()}; MinIO on the same machine; ${OBJECTS} objects of ${CHECKPOINTS} checkpoints of a dead attempt`;
    const rows = collected.map(({ deletesPerSecondMax, swept, deleteRequests, wallMs }) => [
      `${deletesPerSecondMax}`,
      `${swept.objectCount}`,
      `${deleteRequests}`,
      `${(wallMs / 1000).toFixed(1)} s`,
    ]);
    const table = markdownTable(['deletesPerSecondMax', 'objects', 'delete requests', 'time'], rows);
    const markdown = `${[conditions, verdictTable(verdicts), table].join('\n\n')}\n`;
    publish('collect', { markdown, json: { conditions, collected }, charts: {} }, values.out);
    return verdicts.every(isMet);
  } finally {
    await minio.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function collectOnce(run: TestBucket, deletesPerSecondMax: number): Promise<Collected> {
  const store = await openStore(run.uri, run.env);
  let deleteRequests = 0;
  const deleteMany = store.deleteMany.bind(store);
  store.deleteMany = (keys, options) => {
    deleteRequests += Math.ceil(keys.length / store.capabilities.maxDeleteKeys);
    return deleteMany(keys, options);
  };
  await using manager = createCheckpointManager({
    store,
    attempt: 'job-1',
    settings: { deletesPerSecondMax },
  });
  await leaveGarbage(store);
  await manager.save({ version: 1000, buffers: { live: new Uint8Array(1000) } });
  await manager.save({ version: 1001, buffers: { live: new Uint8Array(1000).fill(1) } });
  say(`${OBJECTS} objects are there; deleting at most ${deletesPerSecondMax} a second`);
  deleteRequests = 0;
  const startMs = performance.now();
  const { swept } = await manager.admin.collect();
  const wallMs = performance.now() - startMs;
  const { objectCount, freedBytes } = swept;
  if (objectCount !== OBJECTS) throw new Error(`${objectCount} objects were deleted, not ${OBJECTS}`);
  return { deletesPerSecondMax, swept: { objectCount, freedBytes }, deleteRequests, wallMs };
}

/** Creates objects of epoch 0, which is over before any attempt joins. */
async function leaveGarbage(store: ObjectStore): Promise<void> {
  const bytes = new Uint8Array(100);
  for (let at = 0; at < OBJECTS; at += CREATED_AT_ONCE) {
    const some = Array.from({ length: Math.min(CREATED_AT_ONCE, OBJECTS - at) }, (_, index) => at + index);
    await Promise.all(
      some.map((number) => store.create(`version_${number % CHECKPOINTS}/1.0/0.0-ab/file-${number}`, bytes)),
    );
  }
}
