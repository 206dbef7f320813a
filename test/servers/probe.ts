/** Checks whether a store can be trusted: all guarantees depend on create-if-absent. */

import { randomBytes } from 'node:crypto';
import type { BucketView } from './test-bucket.ts';

export interface ProbeOptions {
  /** Number of keys to race for. More keys find a store that rarely fails more reliably. */
  readonly rounds?: number;
  readonly racers?: number;
}

/**
 * Races creates of one key, and then creates it once more. Resolves to the fault of
 * create-if-absent in words, or to `undefined`. Leaves an object per round below `prefix`, which is
 * empty or ends in '/'.
 */
export async function createIfAbsentFault(
  view: BucketView,
  prefix: string,
  { rounds = 4, racers = 8 }: ProbeOptions = {},
): Promise<string | undefined> {
  for (let round = 0; round < rounds; round++) {
    const key = `${prefix}probe-${randomBytes(6).toString('hex')}`;
    const create = () => view.create(key, randomBytes(16));
    const raced = await Promise.all(Array.from({ length: racers }, create));
    const winnerCount = raced.filter((answer) => answer === 'created').length;
    if (winnerCount !== 1) return `${winnerCount} of ${racers} concurrent creates of one key succeeded`;
    const again = await create();
    if (again !== 'exists')
      return `a create of a key that exists was answered with "${again}" instead of "exists"`;
  }
  return undefined;
}
