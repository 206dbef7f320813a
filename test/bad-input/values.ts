/** Values that callers pass by mistake. Each must be accepted as documented or rejected by name. */

import { isCheckpointError } from '@holdfast/core';
import { expect } from 'vitest';

const ODD = {
  undefined,
  null: null,
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-1': -1,
  '0': 0,
  '1.5': 1.5,
  '2^53': 2 ** 53,
  empty: '',
  space: ' ',
  '{}': {},
  '[]': [],
  true: true,
  function: () => undefined,
  symbol: Symbol('odd'),
} as const;

export type Odd = keyof typeof ODD;

const REFUSED = ['InvalidArgument', 'InvalidConfig'];
/** A call that ends takes far less, also on a busy machine. */
const LONG_MS = 15_000;

/**
 * Calls with each of the odd values. Calls with `accepted` values may succeed or fail for another
 * reason. All others must be rejected. An error that is no `CheckpointError` is a fault, and so is
 * a call that does not end.
 */
export async function expectRefused(
  accepted: readonly Odd[],
  call: (value: never) => unknown,
): Promise<void> {
  const wrong: string[] = [];
  for (const [name, value] of Object.entries(ODD)) {
    const outcome = await outcomeOf(() => call(value as never));
    const isRefused = REFUSED.some((code) => outcome.startsWith(`${code}: `));
    const isAccepted = accepted.includes(name as Odd);
    if (outcome.startsWith('fault') || isRefused === isAccepted) wrong.push(`${name}: ${outcome}`);
  }
  expect(wrong).toEqual([]);
}

async function outcomeOf(call: () => unknown): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve('fault: it does not end'), LONG_MS);
  });
  const ended = (async () => {
    try {
      await call();
      return 'accepted';
    } catch (error) {
      return isCheckpointError(error) ? `${error.code}: ${error.message}` : `fault: ${String(error)}`;
    }
  })();
  return Promise.race([ended, late]).finally(() => clearTimeout(timer));
}
