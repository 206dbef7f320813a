/** The catalog's state and questions about it. Pure. */

import {
  type CatalogCheckpoint,
  type CheckpointId,
  idEquals,
  type State,
  sha256,
  toHex,
} from '../format/index.ts';

/** How much the catalog remembers; docs/format.md says what each bound means for those who come later. */
export const TXN_RING_LENGTH = 256;
export const REMOVED_RING_LENGTH = 256;
export const ABANDONED_LENGTH = 256;
export const PAST_ATTEMPTS_LENGTH = 4096;

/** Before the first entry. */
export const EMPTY_STATE: State = {
  lineage: 1,
  epoch: 0,
  attempt: '',
  attemptDrawn: false,
  pastAttempts: [],
  worldSize: 0,
  incarnations: {},
  latest: undefined,
  top: -1n,
  checkpoints: [],
  abandoned: [],
  removedRing: [],
  removedFloor: undefined,
  txnRing: [],
  policy: undefined,
  resumedFrom: undefined,
};

/** Checkpoints on the path that `latest` and `get` look at: not those that a rollback went back before. In order of commit. */
export function onPath(state: State): CatalogCheckpoint[] {
  return state.checkpoints.filter((checkpoint) => !checkpoint.rolledBack);
}

export function findById(state: State, id: CheckpointId): CatalogCheckpoint | undefined {
  return state.checkpoints.find((checkpoint) => idEquals(checkpoint.id, id));
}

/** The checkpoint of this version on the present path, whatever its state. Versions do not repeat there. */
export function findByVersion(state: State, version: bigint): CatalogCheckpoint | undefined {
  return onPath(state).find((checkpoint) => checkpoint.id.version === version);
}

/** All of this version, those on the present path before those that a rollback left behind, newest first. */
export function allOfVersion(state: State, version: bigint): CatalogCheckpoint[] {
  const found = state.checkpoints.filter(({ id }) => id.version === version).reverse();
  return found.sort((a, b) => Number(a.rolledBack) - Number(b.rolledBack));
}

/** What readers are offered; `undefined` when there is nothing. */
export function latestOf(state: State): CatalogCheckpoint | undefined {
  return state.latest && findById(state, state.latest);
}

/** Newest live checkpoint on the path. */
export function newestLive(state: State): CatalogCheckpoint | undefined {
  return onPath(state).findLast((checkpoint) => checkpoint.state === 'LIVE');
}

/** Registered incarnation of a writer. */
export function incarnationOf(state: State, writer: number): number {
  return state.incarnations[writer] ?? 0;
}

/** How a past attempt is remembered: the first 8 bytes of its SHA-256, hex. */
export function attemptHash(attempt: string): string {
  return toHex(sha256(new TextEncoder().encode(attempt)).subarray(0, 8));
}

export function isPastAttempt(state: State, attempt: string): boolean {
  return state.pastAttempts.includes(attemptHash(attempt));
}

export function isAbandoned(state: State, id: CheckpointId): boolean {
  return state.abandoned.some((abandoned) => idEquals(abandoned, id));
}

/** Once true of an id it stays true: nothing can commit it any more. */
export function isUncommittable(state: State, id: CheckpointId): boolean {
  return (
    id.lineage < state.lineage || id.epoch < state.epoch || id.version <= state.top || isAbandoned(state, id)
  );
}

/** Appends and drops the oldest beyond `length`. */
export function pushBounded<T>(ring: readonly T[], item: T, length: number): T[] {
  return [...ring, item].slice(-length);
}
