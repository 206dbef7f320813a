/** The values of the metrics, of a run that commands have made. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '@holdfast/stores';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asJson, cli } from '../in-process.ts';

const URI = 'memory://metrics-of-saves';
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-metrics-'));
});
afterAll(() => rm(directory, { recursive: true }));

/** One of two writers saves its file. */
async function saveOf(writer: number, version: number, content: string, ...options: string[]) {
  const path = join(directory, `${writer}.bin`);
  await writeFile(path, content);
  const position = ['--version', `${version}`, '--writer', `${writer}/2`, '--attempt', 'a'];
  return (await cli('save', path, URI, ...position, ...options)).code;
}

async function commitOf(version: number, content: string): Promise<void> {
  expect(await saveOf(0, version, content, '--no-wait')).toBe(0);
  expect(await saveOf(1, version, content)).toBe(0);
}

async function removeFilesOf(version: number): Promise<void> {
  const store = await openStore(URI);
  for await (const { objects } of store.list(`version_${version}/`)) {
    const files = objects.filter(({ key }) => key.includes('.bin'));
    await store.deleteMany(files.map(({ key }) => key));
  }
  await store.close();
}

/** By name, and by the value of the label `state` if it has one. */
async function samples(): Promise<Map<string, number>> {
  const { stdout } = await cli('exporter', URI, '--once');
  const lines = stdout.matchAll(/^(\w+)\{run="[^"]*"(?:,state="(\w+)")?\} (\S+)$/gm);
  return new Map(
    [...lines].map(([, name, state, value]) => [`${name} ${state ?? ''}`.trim(), Number(value)]),
  );
}

test('every value is that of the run', async () => {
  // The third save of unchanged files refers to the second.
  for (const version of [1, 2, 3]) await commitOf(version, 'x'.repeat(1000));
  expect((await samples()).has('holdfast_last_verified_timestamp_seconds')).toBe(false);
  const beganMs = Date.now();
  expect((await cli('verify', URI, '--version', '2')).code).toBe(0);
  const endedMs = Date.now();
  await commitOf(4, 'y'.repeat(1500));
  await removeFilesOf(4);
  expect((await cli('verify', URI, '--version', '4', '--quarantine')).code).toBe(5);
  expect((await cli('gc', URI, '--keep', '1', '--grace', '1h', '--apply', '--force')).code).toBe(0);
  expect(await saveOf(0, 5, 'z', '--timeout', '0')).toBe(3);

  const found = await samples();
  expect(Object.fromEntries(found)).toMatchObject({
    holdfast_latest_version: 3,
    holdfast_latest_bytes: 2000,
    holdfast_writers: 2,
    holdfast_stored_bytes: 7000,
    holdfast_referenced_bytes: 2000,
    holdfast_attempts_total: 1,
    holdfast_fenced_total: 0,
    holdfast_saves_in_progress: 1,
    holdfast_missing_writers: 1,
    'holdfast_checkpoints live': 2,
    'holdfast_checkpoints retiring': 1,
    'holdfast_checkpoints quarantined': 1,
    'holdfast_run_state ok': 1,
    'holdfast_run_state damaged': 0,
  });
  const { checkpoints } = await asJson('list', URI);
  const committedS = (version: number) =>
    Date.parse(checkpoints.find((each: { version: number }) => each.version === version).committedAt) / 1000;
  expect(found.get('holdfast_verified_commit_timestamp_seconds')).toBeCloseTo(committedS(2), 2);
  expect(found.get('holdfast_last_commit_timestamp_seconds')).toBeCloseTo(committedS(3), 2);
  const verifiedMs = (found.get('holdfast_last_verified_timestamp_seconds') ?? 0) * 1000;
  expect(verifiedMs).toBeGreaterThanOrEqual(beganMs);
  expect(verifiedMs).toBeLessThanOrEqual(endedMs);
});
