/** How much the tests on servers try. */

import type { Cloud } from '../servers/clouds.ts';

/**
 * `HOLDFAST_TEST_LONG`: 0 tries a sample. Any other number tries every point and is the number of
 * random cases.
 */
export function longCount(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['HOLDFAST_TEST_LONG'] || '0';
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw new Error(`HOLDFAST_TEST_LONG is ${text}; it is a whole number from 0 on`);
}

export const LONG_COUNT = longCount(process.env);

/**
 * With samples S3 tries all points and each other cloud one in this many. The number is odd,
 * because points often come in pairs.
 */
const OTHERS_ONE_IN = 13;

/** The points of a sample on S3 that this cloud tries. The first one is always included. */
export function share<Point>(
  { suite }: Pick<Cloud, 'suite'>,
  points: readonly Point[],
  long = LONG_COUNT,
): readonly Point[] {
  if (long > 0 || suite === 's3') return points;
  return points.filter((_, index) => index % OTHERS_ONE_IN === 0);
}
