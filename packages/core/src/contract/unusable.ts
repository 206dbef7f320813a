/** Why a restart finds nothing to load in a run that has checkpoints. */

import type { CheckpointSummary } from './checkpoint-facts.ts';

/**
 * Example: `no existing checkpoint can be loaded: 2 versions quarantined, 1 version retired`.
 * `there`: all checkpoints of a run that has some, but no latest.
 */
export function unusableText(there: readonly Pick<CheckpointSummary, 'state' | 'isLeftBehind'>[]): string {
  const left = there.filter(({ isLeftBehind }) => isLeftBehind);
  const onPath = there.filter(({ isLeftBehind }) => !isLeftBehind);
  const kinds = [
    [onPath.filter(({ state }) => state === 'quarantined').length, 'quarantined'],
    [onPath.filter(({ state }) => state === 'retiring').length, 'retired'],
    [left.length, 'left behind by a rollback'],
  ] as const;
  const told = kinds
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count} ${count === 1 ? 'version' : 'versions'} ${what}`);
  return `no existing checkpoint can be loaded: ${told.join(', ')}`;
}
