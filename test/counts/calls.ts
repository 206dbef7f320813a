/** The calls that are counted, and how the program that counts them is started. */

import type { Counted } from './counters.ts';

/**
 * Flags of Node: room for the new objects of a call, so that none is freed while it is counted, and
 * `gc` to free them before.
 */
export const NODE_FLAGS = ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'] as const;

/** Calls that move the large file, or memory of its size. */
export const LARGE_CALLS = [
  'saveFile',
  'restoreFile',
  'saveMemory',
  'restoreMemory',
  'saveKnown',
  'saveUnchanged',
] as const;
export type LargeCall = (typeof LARGE_CALLS)[number];

/** The size of a file that is sent in one request, and whose bytes the latest checkpoint has. */
export const WHOLE_BYTES = 4 * 1024 * 1024;

export const SMALL_CALLS = ['saveSmall', 'restoreSmall'] as const;
export type SmallCall = (typeof SMALL_CALLS)[number];

/** What one call did. */
export interface CallCounts extends Counted {
  readonly requests: number;
  readonly connections: number;
}

export type Calls = Readonly<Record<'first' | 'saveUnchangedWhole' | LargeCall | SmallCall, CallCounts>>;
