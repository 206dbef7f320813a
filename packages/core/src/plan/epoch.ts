/**
 * Whether a writer still owns its position. Each of its decisions checks this, and so does a
 * process that joins.
 */

import type { State } from '../format/index.ts';
import { type Rejected, rejected } from './decision.ts';
import { incarnationOf } from './state.ts';
import type { WriterLife } from './transaction.ts';

/** `undefined`: lineage and epoch are current. */
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

/** `undefined`: no later process of the same writer is registered. */
export function supersededProblem(state: State, own: WriterLife): Rejected | undefined {
  if (own.incarnation >= incarnationOf(state, own.writer)) return undefined;
  return rejected('superseded', `a newer process of writer ${own.writer} has registered`);
}
