/** Which runs the page of all runs shows, and in which order. Pure. */

import type { FleetView } from '../src/api.ts';
import { clocksDiffer } from './words.ts';

export type Run = FleetView['runs'][number];

export type RunOrder = 'age' | 'name' | 'stored' | 'fences';

export interface RunChoice {
  /** A part of a URI or of the id of an attempt; empty: all. */
  readonly text: string;
  /** Empty: any. */
  readonly state: '' | Run['state'];
  readonly order: RunOrder;
}

export const ORDER_NAMES: Readonly<Record<RunOrder, string>> = {
  age: 'oldest commit first',
  name: 'name',
  stored: 'largest first',
  fences: 'most fences first',
};

const KEYS: Readonly<Record<RunOrder, (run: Run) => number | string>> = {
  age: (run) => commitTimeMs(run) ?? Number.NEGATIVE_INFINITY,
  name: (run) => run.uri,
  stored: (run) => -(run.storedBytes ?? 0),
  fences: (run) => -(run.recentFenceCount ?? 0),
};

/** The clock of the run's store minus the server's. */
export function aheadOf({ storeTimeMs, asOfMs }: Run): number {
  return storeTimeMs === null || asOfMs === null ? 0 : storeTimeMs - asOfMs;
}

/**
 * By the server's clock. A small difference may be that of a slow request, and changes no order.
 */
function commitTimeMs(run: Run): number | null {
  const aheadMs = aheadOf(run);
  return run.latest && run.latest.committedAtMs - (clocksDiffer(aheadMs) ? aheadMs : 0);
}

/** Runs without a commit are the oldest. Equal ones are in the order of their URIs. */
export function chosenRuns(runs: readonly Run[], { text, state, order }: RunChoice): Run[] {
  return runs
    .filter((run) => (state === '' || run.state === state) && matches(run, text))
    .sort(by(KEYS[order]));
}

function by(keyOf: (run: Run) => number | string): (a: Run, b: Run) => number {
  return (a, b) => {
    const [left, right] = [keyOf(a), keyOf(b)];
    return left < right ? -1 : left > right ? 1 : a.uri < b.uri ? -1 : 1;
  };
}

function matches({ uri, attempt }: Run, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return [uri, attempt ?? ''].some((part) => part.toLowerCase().includes(wanted));
}
