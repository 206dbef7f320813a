/** Sums over the checkpoints of a state. Pure; each needs every page. */

import type { CatalogCheckpoint, State } from '../format/index.ts';
import { allCheckpoints } from './state.ts';

export interface Totals {
  readonly liveCount: number;
  readonly retiringCount: number;
  readonly quarantinedCount: number;
  /** Bytes that were sent for them. */
  readonly storedBytes: number;
  /** Bytes that they share with older checkpoints. */
  readonly referencedBytes: number;
}

export function totalsOf(state: State): Totals {
  const checkpoints = allCheckpoints(state);
  const countOf = (name: CatalogCheckpoint['state']) =>
    checkpoints.filter((each) => each.state === name).length;
  const storedBytes = checkpoints.reduce((sum, each) => sum + each.storedBytes, 0);
  const sizeBytes = checkpoints.reduce((sum, each) => sum + each.sizeBytes, 0);
  return {
    liveCount: countOf('LIVE'),
    retiringCount: countOf('RETIRING'),
    quarantinedCount: countOf('QUARANTINED'),
    storedBytes,
    referencedBytes: sizeBytes - storedBytes,
  };
}

/** The newest checkpoint of which every byte was verified, unless it is quarantined. */
export function newestVerified(state: State): CatalogCheckpoint | undefined {
  return allCheckpoints(state).findLast(({ verified, state: name }) => verified && name !== 'QUARANTINED');
}
