/** How long the proofs on S3 may take. */

/** `HOLDFAST_TEST_LONG`: everything is tried instead of a choice, and as many random cases. 0: a choice. */
export function longCount(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['HOLDFAST_TEST_LONG'] || '0';
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 0) return count;
  throw new Error(`HOLDFAST_TEST_LONG is ${text}; it is a whole number from 0 on`);
}

export const LONG_COUNT = longCount(process.env);
