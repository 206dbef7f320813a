/** Whether a store can be trusted at all: everything rests on create-if-absent. */

import { randomBytes } from 'node:crypto';
import type { BucketView } from './test-bucket.ts';

export interface ProbeOptions {
  /** How many keys are raced for. A store that lets two in now and then is found the more surely, the more there are. */
  readonly rounds?: number;
  readonly racers?: number;
}

/**
 * Lets creates of one key race, and creates it once more. Resolves to what is wrong with create-if-absent there, in words, or to
 * nothing. Leaves an object per round below `prefix`, which is empty or ends in '/'.
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
