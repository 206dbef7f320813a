/** The result of a schedule, and the store in which the schedule is observed. */

import { type MemoryBucket, MemoryStore, type MemoryStoreOptions } from '@holdfast/core/store';
import { InvariantError } from './invariant-error.ts';

export interface Outcome {
  readonly seed: number;
  /** Equal for equal schedules. */
  readonly hash: string;
  readonly steps: number;
  readonly commits: number;
  readonly told: readonly string[];
  readonly trace: readonly string[];
  /** Absent: every invariant holds. */
  readonly violation?: string;
}

/**
 * `undefined` if the schedule kept all invariants. The checks of the crash stories throw plain
 * errors that begin with the invariant. Any other error is a bug and is thrown.
 */
export async function violationOf(play: Promise<void>): Promise<string | undefined> {
  try {
    await play;
    return undefined;
  } catch (error) {
    if (error instanceof InvariantError) return error.message;
    if (error instanceof Error && /^I\d+: /.test(error.message)) return error.message;
    return `crash: ${error instanceof Error ? error.stack : error}`;
  }
}

/** A memory store that calls a check of the catalog after every entry. */
export class LookedAtStore extends MemoryStore {
  readonly #look: () => void;

  constructor(bucket: MemoryBucket, options: MemoryStoreOptions, look: () => void) {
    super(bucket, options);
    this.#look = look;
  }

  override async create(...call: Parameters<MemoryStore['create']>) {
    const info = await super.create(...call);
    if (info.key.startsWith('catalog/')) this.#look();
    return info;
  }
}
