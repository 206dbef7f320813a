/** Runs as trainers make them: saves by several attempts, a rollback, a fork, a dead writer. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { RetentionPolicy, RunManager } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { onTestFinished, TestRunner } from 'vitest';

export interface Place {
  readonly directory: string;
  /** URI of the run of this name below the directory. */
  uri(name: string): string;
}

/** A directory that is removed at the end of the test, or by the caller. */
export function newPlace(): Place & { remove(): void } {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-ui-'));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  if (TestRunner.getCurrentTest() !== undefined) onTestFinished(remove);
  return { directory, uri: (name) => pathToFileURL(join(directory, name)).href, remove };
}

export interface MadeSave {
  readonly version: number;
  readonly loss?: number;
  readonly sizeBytes?: number;
}

/** Opens the run as one attempt, and closes it after `use`. */
export async function asAttempt(
  uri: string,
  attempt: string,
  use: (run: RunManager) => Promise<void>,
  retention?: RetentionPolicy,
): Promise<void> {
  await using run = await openCheckpointManager(uri, { attempt, ...(retention && { retention }) });
  await use(run);
}

export async function saveAll(run: RunManager, saves: readonly MadeSave[]): Promise<void> {
  for (const { version, loss = 5 - version / 1000, sizeBytes = 2000 } of saves) {
    const bytes = new Uint8Array(sizeBytes).fill(version % 251);
    bytes[0] = version & 255;
    bytes[1] = version >> 8;
    await run.save({
      version,
      buffers: { 'model.bin': bytes, 'config.json': new TextEncoder().encode('{"layers": 2}') },
      metrics: { loss },
      onStale: 'off',
    });
  }
}

/**
 * Versions 100 to 400 by `job-1`, 500 to 700 by `job-2`, a rollback to 500, 600 to 900 by `job-3`.
 * Version 300 is pinned, and 800 is verified.
 */
export async function makeHistory(uri: string): Promise<void> {
  const rules = { keepLast: 6, keepBest: [{ metric: 'loss', mode: 'min' as const, count: 2 }] };
  const versions = (...list: number[]) => list.map((version) => ({ version }));
  await asAttempt(uri, 'job-1', (run) => saveAll(run, versions(100, 200, 300, 400)));
  await asAttempt(uri, 'job-2', async (run) => {
    await saveAll(run, versions(500, 600, 700));
    await run.admin.pin(300, 'paper');
    await run.admin.rollback({ to: 500, reason: 'loss went up after 500' });
  });
  await asAttempt(uri, 'job-3', (run) => saveAll(run, versions(600, 700, 800, 900)), rules);
  await using run = await openCheckpointManager(uri);
  await run.admin.verify({ version: 800 });
}
