/** How long the proofs on servers may take. */

import type { Cloud } from '../servers/clouds.ts';

/** `HOLDFAST_TEST_LONG`: everything is tried instead of a choice, and as many random cases. 0: a choice. */
export function longCount(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['HOLDFAST_TEST_LONG'] || '0';
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw new Error(`HOLDFAST_TEST_LONG is ${text}; it is a whole number from 0 on`);
}

export const LONG_COUNT = longCount(process.env);

/** Where a choice is tried, S3 has all of it, and each of the others one point in so many; odd, as points often come in pairs. */
const OTHERS_ONE_IN = 7;

/** What is tried on this cloud of the points that a choice would be made of on S3. The first is always among them. */
export function share<Point>(
  { suite }: Pick<Cloud, 'suite'>,
  points: readonly Point[],
  long = LONG_COUNT,
): readonly Point[] {
  if (long > 0 || suite === 's3') return points;
  return points.filter((_, index) => index % OTHERS_ONE_IN === 0);
}
