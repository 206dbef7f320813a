/** What a schedule was, once it is over; and the store that it is watched in. */

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

/** `undefined` if it went well. The checks of the crash stories throw plain errors that begin with the invariant; any other is a bug. */
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

/** A memory store with a look at the catalog after every entry. */
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
