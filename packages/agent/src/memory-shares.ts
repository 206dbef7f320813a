/** How the agent divides its budget of bytes. */

import { SETTINGS } from '@holdfast/core';

/** The rest is for reads: what saves and restores have used once stays with the process. */
const TRANSFER_SHARE = 1 / 2;
/** The engine reads ahead of streams with at most this share of the memory for transfers. */
const AHEAD_SHARE = 1 / 4;

export interface MemoryShares {
  /** What saves and restores take their buffers from. */
  readonly transferBytes: number;
  /** For what streams have read and no trainer has taken, besides what the engine reads ahead. */
  readonly streamBytes: number;
}

/** A budget near the minimum is exceeded: transfers need that much for themselves. */
export function sharesOf(budgetBytes: number = SETTINGS.bufferBytes.default): MemoryShares {
  const transferBytes = Math.max(SETTINGS.bufferBytes.min, Math.floor(budgetBytes * TRANSFER_SHARE));
  const aheadBytes = transferBytes * AHEAD_SHARE;
  return { transferBytes, streamBytes: Math.max(0, budgetBytes - transferBytes - aheadBytes) };
}
