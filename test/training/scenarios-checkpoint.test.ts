/** torchelastic's test_checkpoint: four workers that save after every step are killed in the third, and begin again. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { FileSystemCheckpointManager } from '@holdfast/training';
import { expect, onTestFinished, test } from 'vitest';
import { describeOnS3 } from '../servers/describe-on-s3.ts';
import { WORKER_COUNT, Workers } from './worker.ts';
import type { Checkpoints } from './worker-messages.ts';

type Versions = () => Promise<bigint[]>;

const NAME = 'all four are killed in the third step: two checkpoints; then each sees three more samples';

async function crashAndGoOn(
  checkpoints: Checkpoints,
  versions: Versions,
  env?: Readonly<Record<string, string>>,
): Promise<void> {
  await using workers = new Workers(env);
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

async function crashAndGoOnInRun(uri: string, env: Readonly<Record<string, string>>): Promise<void> {
  const versions = async () => {
    await using manager = await openCheckpointManager(uri, { env });
    return (await manager.list()).map(({ version }) => version);
  };
  await crashAndGoOn({ in: 'run', uri }, versions, env);
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
  await crashAndGoOn({ in: 'directory', path }, versions);
});

test(`${NAME}: in a run on local disk`, async () => {
  await crashAndGoOnInRun(pathToFileURL(join(scratchDirectory(), 'run')).href, {});
});

describeOnS3('workers that are killed', (server) => {
  test(`${NAME}: in a run in a bucket`, async () => {
    const { uri, env } = await server().newBucket();
    await crashAndGoOnInRun(uri, env);
  });
});
