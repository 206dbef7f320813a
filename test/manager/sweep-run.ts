/**
 * For the tests of sweeps: a run with a live checkpoint and the remains of a dead attempt, and a
 * process that sweeps.
 */

import type { CheckpointManagerOptions, ObjectStore } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultPlan, FaultyStore, type LateEffects, ManualClock } from '@holdfast/testkit';
import { bytes, newBucket, open, SETTINGS } from './memory-run.ts';

/** Two parts. */
export const LARGE_BYTES = 70_000;

/** A process with a separate store that applies the planned faults. */
export function processOn(
  bucket: MemoryBucket,
  options: Partial<CheckpointManagerOptions> & {
    plan?: FaultPlan | undefined;
    change?: ((store: ObjectStore) => void) | undefined;
    maxDeleteKeys?: number | undefined;
    inspect?: ObjectStore['inspect'];
    lateEffects?: LateEffects;
  } = {},
) {
  const { plan, change, maxDeleteKeys = 1000, inspect, lateEffects, ...rest } = options;
  const capabilities = { maxDeleteKeys, maxParts: 2 ** 24 };
  const below = new MemoryStore(bucket, { capabilities });
  change?.(below);
  const store = new FaultyStore(below, plan, { whenStopped: 'reject', lateEffects });
  if (inspect) Object.assign(store, { inspect });
  const clock = new ManualClock({ autoAdvance: true });
  const manager = open(bucket, { store, clock, ...rest, settings: { ...SETTINGS, ...rest.settings } });
  return { manager, store, clock };
}

/**
 * Version 1 is committed by job-0, which then dies. One of its two writers has delivered version 2,
 * and the other has sent half of it.
 */
export async function runWithGarbage(bucket: MemoryBucket = newBucket()): Promise<MemoryBucket> {
  const writers = [0, 1].map((index) =>
    processOn(bucket, {
      attempt: 'job-0',
      writer: { index, count: 2 },
      plan: ({ operation, key }) =>
        index === 1 && operation === 'complete' && key.startsWith('version_2/')
          ? FAULTS.stopBefore
          : undefined,
    }),
  );
  const save = (version: number) =>
    writers.map(({ manager }, index) =>
      manager.save({
        version,
        buffers: {
          [`w${index}/large`]: bytes(LARGE_BYTES, version),
          [`w${index}/small`]: bytes(10, version),
        },
        noWait: true,
      }),
    );
  await Promise.all(save(1));
  await writers[0]?.manager.commit({ version: 1 });
  await Promise.allSettled(save(2));
  await Promise.allSettled(writers.map(({ manager }) => manager.close()));
  return bucket;
}

/** Keys that begin with one of these. */
export function keysOf(bucket: MemoryBucket, ...prefixes: string[]): string[] {
  return bucket.keys().filter((key) => prefixes.some((prefix) => key.startsWith(prefix)));
}
