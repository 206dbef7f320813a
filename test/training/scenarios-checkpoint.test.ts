/** torchelastic's test_checkpoint: four workers that save after every step are killed in the third, and begin again. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { FileSystemCheckpointManager } from '@holdfast/training';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import { type OrderPart, WORKER_COUNT, Workers } from './worker.ts';
import type { Checkpoints } from './worker-messages.ts';

type Versions = () => Promise<bigint[]>;

const NAME = 'all four are killed in the third step: two checkpoints; then each sees three more samples';

const workersOnDisk = new Workers();

afterAll(() => workersOnDisk[Symbol.asyncDispose]());

async function crashAndGoOn(workers: Workers, checkpoints: Checkpoints, versions: Versions): Promise<void> {
  expect(await versions()).toEqual([]);
  const crashed = await workers.train(Array(WORKER_COUNT).fill({ checkpoints, hook: 'kill' }));
  expect(crashed).toEqual(Array(WORKER_COUNT).fill({ type: 'killed', signal: 'SIGKILL' }));
  expect(await versions()).toEqual([1n, 0n]);

  const trained = await workers.train(Array(WORKER_COUNT).fill({ checkpoints }));
  expect(trained).toEqual([
    { type: 'trained', rank: 0, samples: [19, 23, 27], totalSum: 410 },
    { type: 'trained', rank: 1, samples: [20, 24, 28], totalSum: 410 },
    { type: 'trained', rank: 2, samples: [21, 25, 29], totalSum: 410 },
    { type: 'trained', rank: 3, samples: [22, 26, 30], totalSum: 410 },
  ]);
  expect(await versions()).toEqual([4n, 3n, 2n, 1n, 0n]);
}

/** What is committed in a run. */
function versionsIn(uri: string, env: Readonly<Record<string, string>>): Versions {
  return async () => {
    await using manager = await openCheckpointManager(uri, { env });
    return (await manager.list()).map(({ version }) => version);
  };
}

function scratchDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-training-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

test(`${NAME}: in a directory`, async () => {
  const path = join(scratchDirectory(), 'checkpoints');
  const versions = async () =>
    (await new FileSystemCheckpointManager(path).list()).map(({ version }) => version);
  await crashAndGoOn(workersOnDisk, { in: 'directory', path }, versions);
});

test(`${NAME}: in a run on local disk`, async () => {
  const uri = pathToFileURL(join(scratchDirectory(), 'run')).href;
  await crashAndGoOn(workersOnDisk, { in: 'run', uri }, versionsIn(uri, {}));
});

test('rank 0, which saves, and rank 1 are killed in the third step: the next rank 0 saves on', async () => {
  const uri = pathToFileURL(join(scratchDirectory(), 'run')).href;
  const order: OrderPart = { checkpoints: { in: 'run', uri }, minWorkers: 2 };
  const outcomes = await workersOnDisk.train([
    { ...order, hook: 'kill' },
    { ...order, hook: 'kill' },
    order,
    order,
  ]);
  expect(outcomes.slice(2)).toEqual([
    { type: 'trained', rank: 0, samples: [13, 17, 21, 19, 21, 23, 25, 27, 29], totalSum: 410 },
    { type: 'trained', rank: 1, samples: [14, 18, 22, 20, 22, 24, 26, 28, 30], totalSum: 410 },
  ]);
  expect(await versionsIn(uri, {})()).toEqual([7n, 6n, 5n, 4n, 3n, 2n, 1n, 0n]);
});

describeOnS3('workers that are killed', (server) => {
  test(`${NAME}: in a run in a bucket`, async () => {
    const { uri, env } = await server().newBucket();
    await using workers = new Workers(env);
    await crashAndGoOn(workers, { in: 'run', uri }, versionsIn(uri, env));
  });
});
