/**
 * For the tests of retention: a run whose store and machines have a date that a test sets. Sleeping
 * takes real time.
 */

import {
  type CheckpointManagerOptions,
  crc32c,
  type RetentionPlan,
  type RunManager,
  systemClock,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { ManualClock, type PlannedCall } from '@holdfast/testkit';
import { bytes, open, SETTINGS } from './memory-run.ts';

export const HOUR_MS = 3_600_000;
export const NOW_MS = Date.UTC(2026, 10, 21, 14);

export interface TimedRun {
  readonly bucket: MemoryBucket;
  /** The date of the store and of the machines. */
  readonly clock: ManualClock;
  open(options?: Partial<CheckpointManagerOptions>): RunManager;
}

export function timedRun(): TimedRun {
  const clock = new ManualClock({ nowMs: NOW_MS });
  const bucket = new MemoryBucket({ crc32c, clock });
  const machine = { ...systemClock, nowMs: () => clock.nowMs() };
  const settings = { ...SETTINGS, deletesPerSecondMax: 1_000_000 };
  return { bucket, clock, open: (options = {}) => open(bucket, { clock: machine, settings, ...options }) };
}

/** Saves versions of 1,000 bytes each, a minute apart. */
export async function saveVersions(
  manager: RunManager,
  versions: readonly number[],
  clock?: ManualClock,
): Promise<void> {
  for (const version of versions) {
    await clock?.advance(60_000);
    await manager.save({ version, buffers: { a: bytes(1000, version) }, metrics: { loss: version / 10 } });
  }
}

/** A run that has these versions, with its manager closed. */
export async function runOf(versions: readonly number[]): Promise<TimedRun> {
  const run = timedRun();
  await using manager = run.open();
  await saveVersions(manager, versions, run.clock);
  return run;
}

/** "5 keep", "4 retire", newest first. */
export function verdictsOf({ verdicts }: RetentionPlan): string[] {
  return verdicts.map(({ version, verdict }) => `${version} ${verdict}`);
}

export async function statesOf(manager: RunManager): Promise<string[]> {
  return (await manager.list()).map(({ version, state }) => `${version} ${state}`);
}

/** Number of entries in the catalog. */
export function entryCount({ bucket }: TimedRun): number {
  return bucket.keys().filter((key) => key.startsWith('catalog/')).length;
}

/** Versions that have objects, as text. */
export function versionsWithObjects({ bucket }: TimedRun): string[] {
  return [...new Set(bucket.keys().flatMap((key) => /^version_(\d+)\//.exec(key)?.[1] ?? []))];
}

/** The store of one manager. Another process acts before the first call that `isDue` is sent. */
export function meddledStore(
  run: TimedRun,
  isDue: (call: PlannedCall) => boolean,
  meddle: () => Promise<void>,
): MemoryStore {
  const store = new MemoryStore(run.bucket);
  let meddled: Promise<void> | undefined;
  const meddleOnce = () => {
    meddled ??= meddle();
    return meddled;
  };
  const list = store.list.bind(store);
  const create = store.create.bind(store);
  store.list = async function* (prefix, options) {
    yield* list(prefix, options);
    if (isDue({ number: 0, operation: 'list', key: prefix })) await meddleOnce();
  };
  store.create = async (key, data, options) => {
    if (isDue({ number: 0, operation: 'create', key })) await meddleOnce();
    return create(key, data, options);
  };
  return store;
}
