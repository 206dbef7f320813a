/**
 * Kills real processes that save to a real disk at random moments. After each kill the run must be
 * sound and a job must be able to continue from it.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import { SeededRandom } from '@holdfast/testkit';
import { afterAll, expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import { Program } from '../e2e/program.ts';

const ROUNDS = LONG_COUNT > 0 ? 12 : 6;
const WRITERS = 2;

const directory = mkdtempSync(join(tmpdir(), 'holdfast-kill-'));
const uri = pathToFileURL(join(directory, 'run')).href;

afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Starts a writer that saves one version after the other until it is killed. */
function startSaver(attempt: string, index: number, firstVersion: bigint): Program {
  return new Program('test/crash/saver.ts', {
    args: [uri, attempt, `${index}`, `${WRITERS}`, `${firstVersion}`],
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE },
  });
}

/** Versions that a process reported as committed before it died. */
function committedOf(stdout: string): bigint[] {
  return [...stdout.matchAll(/committed (\d+)\n/g)].map((match) => BigInt(match[1] ?? -1));
}

test('I1, I2, I7 and I10 hold when both writers are killed at random moments, again and again', async () => {
  const random = new SeededRandom(20_26);
  let highestTold = -1n;
  for (let round = 0; round < ROUNDS; round++) {
    const first = highestTold + 100n; // above any version that was committed without a report
    const savers = [0, 1].map((index) => startSaver(`job-${round}`, index, first));
    await Promise.all(savers.map((saver) => saver.says(/begun/)));
    // In every second round wait for a first commit, however slow the machine is. In the other
    // rounds the kill may interrupt that commit.
    if (round % 2 === 1) await Promise.any(savers.map((saver) => saver.says(/committed/)));
    await new Promise((resolve) => setTimeout(resolve, random.fraction() * 400));
    for (const saver of savers) saver.kill('SIGKILL');
    const ended = await Promise.all(savers.map((saver) => saver.ended));
    expect(ended.map((each) => each.exitCode)).toEqual([null, null]);

    await using manager = await openCheckpointManager(uri);
    const told = ended.flatMap((each) => committedOf(each.stdout));
    const versions = (await manager.list()).map((each) => each.version);
    for (const version of told) expect(versions).toContain(version);
    const latest = await manager.latest();
    if (!latest) continue;
    expect(told.every((version) => version <= latest.version)).toBe(true);
    expect(latest.version).toBeGreaterThanOrEqual(highestTold);
    highestTold = latest.version;
    expect((await manager.admin.verify()).problems).toEqual([]);
    expect((await latest.details()).worldSize).toBe(WRITERS);
  }
  expect(highestTold).toBeGreaterThan(0n);
}, 120_000);
