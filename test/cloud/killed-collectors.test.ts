/**
 * Kills a collection on each real store, a little later each time. The next collection continues
 * from what is left.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager, openStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import { packedProgram } from '../e2e/packed-command.ts';
import { Program } from '../e2e/program.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { RULES } from './killed-collectors.ts';

const CALLS_APART = 4;
const KILLS_MAX = 20;
const VERSIONS = [1, 2, 3, 4, 5];
const TIMEOUT_MS = 120_000;
const TITLE = 'I1, I3, I7 and I10 hold: nothing that stays is touched, and the last one finishes';

type Env = Readonly<Record<string, string>>;

function contentOf(version: number): Uint8Array {
  return new Uint8Array(1000).fill(version);
}

for (const cloud of CLOUDS) {
  cloud.describeOn(`collectors that are killed on ${cloud.title}`, (server) => {
    test(
      TITLE,
      async () => {
        const { uri, env } = await server().newBucket();
        await killAndGoOn(uri, env);
      },
      TIMEOUT_MS,
    );
  });
}

test(
  `collectors that are killed on the local disk > ${TITLE}`,
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-collect-'));
    try {
      await killAndGoOn(pathToFileURL(join(directory, 'run')).href, {});
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
  TIMEOUT_MS,
);

async function killAndGoOn(uri: string, env: Env): Promise<void> {
  await using manager = await openCheckpointManager(uri, { env });
  for (const version of VERSIONS) await manager.save({ version, buffers: { file: contentOf(version) } });
  await manager.admin.pin(1, 'paper');

  let kills = 0;
  for (; kills < KILLS_MAX; kills++) {
    const collector = new Program([process.execPath, packedProgram('test/cloud/collector.ts')], {
      args: [uri, `${3 + kills * CALLS_APART}`],
      env: { ...env, NODE_COMPILE_CACHE: COMPILE_CACHE },
    });
    const { exitCode, stderr } = await collector.ended;
    for (const version of [1, 4, 5]) {
      const to = { file: new Uint8Array(1000) };
      await manager.restore({ version, to });
      expect(to.file).toEqual(contentOf(version));
    }
    if (exitCode === null) continue;
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    break;
  }
  expect(kills).toBeGreaterThan(2);
  expect((await manager.list()).map(({ version }) => version)).toEqual([5n, 4n, 1n]);
  expect((await manager.admin.collect(RULES)).swept.objectCount).toBe(0);
  const store = await openStore(uri, env);
  try {
    for (const version of [2, 3])
      for await (const { objects } of store.list(`version_${version}/`)) expect(objects).toEqual([]);
  } finally {
    await store.close();
  }
}
