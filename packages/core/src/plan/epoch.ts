/**
 * Tells whether a process of a writer may still write: its attempt is current, and no newer process
 * has replaced it. This is checked when the process joins and when it commits. Other decisions
 * check only the lineage and epoch.
 */

import type { State, WriterIncarnation } from '../format/index.ts';
import { type Rejected, rejected } from './decision.ts';
import { incarnationOf } from './state.ts';

/**
 * `undefined`: `at` is the current lineage and epoch. `rolled-back`: only the lineage has changed.
 * `fenced`: the epoch has changed, because a newer attempt owns the run.
 */
export function inEpochProblem(
  state: State,
  at: { readonly lineage: number; readonly epoch: number },
): Rejected | undefined {
  if (at.lineage === state.lineage && at.epoch === state.epoch) return undefined;
  const now = `the run is at lineage ${state.lineage}, epoch ${state.epoch}`;
  const passed = `lineage ${at.lineage}, epoch ${at.epoch} is no longer current`;
  if (at.epoch === state.epoch)
    return rejected('rolled-back', `the run was rolled back: ${passed}, and ${now}`);
  return rejected('fenced', `a newer attempt, "${state.attempt}", owns the run: ${passed}, and ${now}`);
}

/** `undefined`: no newer process of the same writer is registered. */
export function supersededProblem(state: State, own: WriterIncarnation): Rejected | undefined {
  if (own.incarnation >= incarnationOf(state, own.writer)) return undefined;
  return rejected('superseded', `a newer process of writer ${own.writer} has registered`);
}
