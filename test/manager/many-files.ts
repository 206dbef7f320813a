/**
 * For tests of checkpoints with many files: managers with limits so low that a few files count as
 * many.
 */

import type { CheckpointManagerOptions, RunManager } from '@holdfast/core';
import { openWithLimits } from '@holdfast/core/internal/manager/manager';
import { type MemoryBucket, MemoryStore, ObservedStore, type StoreCall } from '@holdfast/core/store';
import { type FaultPlan, FaultyStore, ManualClock } from '@holdfast/testkit';
import { SETTINGS } from './memory-run.ts';

/** About four files in a list; a manifest repeats nothing. */
export const FEW = { filesBytesMax: 1000, repeatedBytesMax: 0 };

export interface Opened {
  readonly manager: RunManager;
  readonly calls: StoreCall[];
}

export function openMany(
  bucket: MemoryBucket,
  options: Partial<CheckpointManagerOptions> & { readonly plan?: FaultPlan } = {},
): Opened {
  const { plan, ...rest } = options;
  const calls: StoreCall[] = [];
  const clock = options.clock ?? new ManualClock({ autoAdvance: true });
  const below = new FaultyStore(new MemoryStore(bucket), plan, { whenStopped: 'reject' });
  const store = new ObservedStore(below, { clock, onCall: (call) => calls.push(call) });
  return { manager: openWithLimits({ store, clock, settings: SETTINGS, ...rest }, FEW), calls };
}

/** Files `w0/part-00` and so on. Each contains bytes derived from its number. */
export function partsOf(writer: number, count: number, seed = 1): Record<string, Uint8Array> {
  const parts = Array.from({ length: count }, (_, index) => {
    const name = `w${writer}/part-${String(index).padStart(2, '0')}`;
    return [name, Uint8Array.of(writer, index, seed)] as const;
  });
  return Object.fromEntries(parts);
}

/**
 * Saves one version after the other, each with so many writers and so many files per writer.
 * Versions with the same `seed` have the same files.
 */
export async function saveMany(
  bucket: MemoryBucket,
  {
    versions = [1],
    writers = 3,
    files = 10,
    attempt = 'job',
    seed = undefined as number | undefined,
    options = {} as object,
  } = {},
): Promise<void> {
  for (const version of versions) {
    for (let index = 0; index < writers; index++) {
      const position = { index, count: writers };
      const { manager } = openMany(bucket, { attempt, writer: position, ...options });
      await manager.save({ version, buffers: partsOf(index, files, seed ?? version), noWait: true });
      await manager.close();
    }
  }
}
