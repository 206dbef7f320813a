/** Filters, order and lateness of runs. Pure. */

import type { RunState, RunSummary } from '@holdfast/fleet';
import { formatRoughDuration } from '../format.ts';
import { monthlyCost, type Prices } from './prices.ts';

export const STATES = ['ok', 'empty', 'damaged', 'denied', 'unreachable'] as const satisfies RunState[];
export const ORDERS = ['name', 'age', 'stored', 'cost', 'attempts'] as const;
export type Order = (typeof ORDERS)[number];

export interface Wanted {
  /** Only these; empty: all. */
  readonly states: readonly RunState[];
  /** Only runs whose name holds this text; empty: all. */
  readonly nameText: string;
  readonly order: Order;
  readonly prices: Prices | null;
}

export function selectRuns(runs: readonly RunSummary[], wanted: Wanted): RunSummary[] {
  const { states, nameText, order, prices } = wanted;
  return runs
    .filter(({ state }) => states.length === 0 || states.includes(state))
    .filter(({ name, uri }) => (name === '' ? uri : name).includes(nameText))
    .sort((a, b) => compare(a, b, order, prices) || compareNames(a, b));
}

function compareNames(a: RunSummary, b: RunSummary): number {
  return a.uri < b.uri ? -1 : Number(a.uri > b.uri);
}

/** The largest first, and what is unknown before all others: it needs attention. */
function compare(a: RunSummary, b: RunSummary, order: Order, prices: Prices | null): number {
  if (order === 'name') return 0;
  const rank = (run: RunSummary) => orderValue(run, order, prices) ?? Number.MAX_VALUE;
  return rank(b) - rank(a);
}

function orderValue(run: RunSummary, order: Order, prices: Prices | null): number | null {
  switch (order) {
    case 'age':
      return run.latest === null ? null : -run.latest.committedAtMs;
    case 'stored':
      return run.storedBytes;
    case 'cost':
      return prices && monthlyCost(prices, run);
    default:
      return run.recentAttemptCount;
  }
}

/** Time since the latest commit, at `nowMs` by this machine's clock; `null`: unknown. */
export function ageMs({ latest, asOfMs }: RunSummary, nowMs: number): number | null {
  return latest === null || asOfMs === null ? null : latest.ageMs + Math.max(0, nowMs - asOfMs);
}

/**
 * Why a run counts as late; `null`: it has a checkpoint that is young enough. A run of which this
 * is not known is late too.
 */
export function lateness(run: RunSummary, maxAgeMs: number, nowMs: number): string | null {
  if (run.problem !== null) return `${run.state} (${run.problem.code})`;
  const age = ageMs(run, nowMs);
  if (age === null) return 'no checkpoint';
  return age > maxAgeMs ? `${formatRoughDuration(age)} old` : null;
}
