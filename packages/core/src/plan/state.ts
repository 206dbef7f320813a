/**
 * The catalog's state and queries on it. Pure.
 *
 * Only the functions here look at `state.checkpoints` and `state.pages`. Each throws `PageFault`
 * (see pages.ts) if a page that is not open could change the answer.
 */

import type { CheckpointStateName } from '../contract/checkpoint-facts.ts';
import { CheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  type CheckpointId,
  idEquals,
  idText,
  type PageRef,
  type Reference,
  type State,
  sha256,
  toHex,
} from '../format/index.ts';
import { compareCommits, covers, demandPages } from './pages.ts';

/** How much the catalog remembers; docs/format.md says what each bound means for later requests. */
export const TXN_RING_LENGTH = 256;
export const REMOVED_RING_LENGTH = 256;
export const ABANDONED_LENGTH = 256;
export const PAST_ATTEMPTS_LENGTH = 4096;

/** The state before the first entry. */
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
  pages: [],
  skippedManifests: [],
};

/** All checkpoints, in order of commit. Needs every page. */
export function allCheckpoints(state: State): readonly CatalogCheckpoint[] {
  demandPages(state.pages);
  return state.checkpoints;
}

/**
 * The newest ones, which the entry itself holds, and those of open pages; in order of commit. Needs
 * no page.
 */
export function checkpointsAtHand(state: State): readonly CatalogCheckpoint[] {
  return state.checkpoints;
}

/** The newest `limit` checkpoints, in order of commit. Needs only the pages that hold them. */
export function newestCheckpoints(state: State, limit: number): readonly CatalogCheckpoint[] {
  const missing: PageRef[] = [];
  for (const ref of state.pages.toReversed()) {
    const newer = state.checkpoints.filter(({ id }) => compareCommits(ref.last, id) < 0).length;
    if (newer + missing.reduce((sum, { count }) => sum + count, 0) >= limit) break;
    missing.push(ref);
  }
  demandPages(missing);
  return state.checkpoints.slice(-limit);
}

/** The number of checkpoints, and the newest one, in any state. Needs no page. */
export function countCheckpoints(state: State): { count: number; newest: CheckpointId | undefined } {
  const count = state.pages.reduce((total, page) => total + page.count, state.checkpoints.length);
  const newest = [state.checkpoints.at(-1)?.id, state.pages.at(-1)?.last].filter((id) => id !== undefined);
  return { count, newest: newest.sort(compareCommits).at(-1) };
}

/**
 * Checkpoints on the path, where `latest` and `get` look: without those that a rollback left
 * behind. In order of commit. Needs every page.
 */
export function onPath(state: State): CatalogCheckpoint[] {
  return allCheckpoints(state).filter((checkpoint) => !checkpoint.rolledBack);
}

/** Checkpoints on the path above a version. Needs the pages that hold one. */
export function onPathAbove(state: State, version: bigint): CatalogCheckpoint[] {
  demandPages(state.pages.filter(({ topOnPath }) => topOnPath > version));
  return state.checkpoints.filter(({ id, rolledBack }) => !rolledBack && id.version > version);
}

export function findById(state: State, id: CheckpointId): CatalogCheckpoint | undefined {
  const found = state.checkpoints.find((checkpoint) => idEquals(checkpoint.id, id));
  if (!found) demandPages(state.pages.filter((ref) => covers(ref, id)));
  return found;
}

/**
 * The checkpoint of this version on the present path, in any state. A version occurs there at most
 * once.
 */
export function findByVersion(state: State, version: bigint): CatalogCheckpoint | undefined {
  const found = state.checkpoints.find(({ id, rolledBack }) => !rolledBack && id.version === version);
  if (!found) demandPages(state.pages.filter((ref) => version <= ref.topOnPath && mayHold(ref, version)));
  return found;
}

/**
 * All checkpoints of this version: first those on the present path, then those that a rollback left
 * behind, newest first.
 */
export function allOfVersion(state: State, version: bigint): CatalogCheckpoint[] {
  demandPages(state.pages.filter((ref) => mayHold(ref, version)));
  const found = state.checkpoints.filter(({ id }) => id.version === version).reverse();
  return found.sort((a, b) => Number(a.rolledBack) - Number(b.rolledBack));
}

/**
 * All checkpoints that a reference may mean, the most likely first. A version without a lineage
 * means the one on the present path, if there is one: never its namesake that was left behind.
 */
export function allReferredTo(state: State, { version, lineage }: Reference): CatalogCheckpoint[] {
  if (lineage === undefined) {
    const found = allOfVersion(state, version);
    const onPath = found.filter(({ rolledBack }) => !rolledBack);
    return onPath.length > 0 ? onPath : found;
  }
  const found = state.checkpoints.find(({ id }) => id.lineage === lineage && id.version === version);
  if (!found) demandPages(state.pages.filter((ref) => covers(ref, { lineage, epoch: 0, version })));
  return found ? [found] : [];
}

/**
 * The checkpoint that readers get for a reference, in any state. With a lineage it may be one that
 * a rollback left behind.
 */
export function findReferredTo(state: State, reference: Reference): CatalogCheckpoint | undefined {
  const { version, lineage } = reference;
  return lineage === undefined ? findByVersion(state, version) : allReferredTo(state, reference)[0];
}

/** Versions start again in each lineage, so a page of several lineages may hold any version. */
function mayHold({ first, last }: PageRef, version: bigint): boolean {
  if (first.lineage !== last.lineage) return true;
  return first.version <= version && version <= last.version;
}

/**
 * The checkpoint that readers get as the latest; `undefined` if there is none. Needs no page: the
 * entry itself holds it.
 */
export function latestOf(state: State): CatalogCheckpoint | undefined {
  return state.latest && findById(state, state.latest);
}

/**
 * A contradiction in the state of an entry without open pages; `undefined`: there is none. Cost:
 * one pass over `checkpoints`.
 */
export function stateProblem({ latest, top, checkpoints }: State): string | undefined {
  for (const [index, { id }] of checkpoints.entries()) {
    const before = checkpoints[index - 1]?.id;
    if (before !== undefined && compareCommits(before, id) >= 0)
      return `its checkpoints are not in order of commit: ${idText(before)} stands before ${idText(id)}`;
  }
  const above = checkpoints.find(({ id, rolledBack }) => !rolledBack && id.version > top);
  if (above !== undefined) return `its highest version is ${top}, and ${idText(above.id)} is on the path`;
  const offered = checkpoints.findLast(isOffered);
  if (latest === undefined) return offered && `it names no latest, and ${idText(offered.id)} is live`;
  const found = checkpoints.find(({ id }) => idEquals(id, latest));
  if (found === undefined) return `its latest, ${idText(latest)}, is not among its checkpoints`;
  if (!isOffered(found))
    return `its latest, ${idText(latest)}, is not live, or was left behind by a rollback`;
  const isOlder = offered !== undefined && offered !== found;
  return isOlder ? `its latest is ${idText(latest)}, and ${idText(offered.id)} is newer` : undefined;
}

/** Live, and not left behind by a rollback. */
function isOffered({ state, rolledBack }: CatalogCheckpoint): boolean {
  return state === 'LIVE' && !rolledBack;
}

/**
 * Newest live checkpoint on the path; with `before`, only among those committed before that one.
 */
export function newestLive(state: State, before?: CheckpointId): CatalogCheckpoint | undefined {
  const isWanted = (id: CheckpointId) => before === undefined || compareCommits(id, before) < 0;
  const found = state.checkpoints.findLast((each) => isOffered(each) && isWanted(each.id));
  const page = state.pages.findLast((ref) => ref.livePathCount > 0 && isWanted(ref.first));
  if (page && (!found || compareCommits(found.id, page.last) < 0)) demandPages([page]);
  return found;
}

const STATE_NAMES = { LIVE: 'live', RETIRING: 'retiring', QUARANTINED: 'quarantined' } as const;

/** The state's name for callers. */
export function stateNameOf({ id, state }: CatalogCheckpoint): CheckpointStateName {
  if (state !== 'CHECKPOINT_STATE_UNSPECIFIED') return STATE_NAMES[state];
  throw new CheckpointError('Corrupt', `the catalog does not say the state of ${idText(id)}`);
}

/**
 * The newest checkpoint of each page with checkpoints that are not live: retired or quarantined.
 * Needs no page.
 */
export function newestOfMixedPages(state: State): CheckpointId[] {
  return state.pages.filter(({ count, liveCount }) => count > liveCount).map(({ last }) => last);
}

/** Number of live checkpoints on the path. Needs no page. */
export function countLivePath(state: State): number {
  const inPages = state.pages.reduce((total, { livePathCount }) => total + livePathCount, 0);
  return inPages + state.checkpoints.filter(isOffered).length;
}

/**
 * True if a restart can be given another checkpoint, and a verified one if `isVerified` is set.
 * Checkpoints that a rollback left behind do not count. Needs no page.
 */
export function hasOtherLive(state: State, but: CatalogCheckpoint, isVerified = false): boolean {
  const isInPage = state.pages.some(
    (page) => page.livePathCount > 0 && (!isVerified || page.liveVerifiedCount > 0),
  );
  if (isInPage) return true;
  return state.checkpoints.some(
    (other) => other !== but && isOffered(other) && (!isVerified || other.verified),
  );
}

/** Registered incarnation of a writer. */
export function incarnationOf(state: State, writer: number): number {
  return state.incarnations[writer] ?? 0;
}

/** The form in which a past attempt is remembered: the first 8 bytes of its SHA-256, hex. */
export function attemptHash(attempt: string): string {
  return toHex(sha256(new TextEncoder().encode(attempt)).subarray(0, 8));
}

export function isPastAttempt(state: State, attempt: string): boolean {
  return state.pastAttempts.includes(attemptHash(attempt));
}

export function isAbandoned(state: State, id: CheckpointId): boolean {
  return state.abandoned.some((abandoned) => idEquals(abandoned, id));
}

/** Once true for an id, it stays true: no process can commit that id any more. */
export function isUncommittable(state: State, id: CheckpointId): boolean {
  return (
    id.lineage < state.lineage || id.epoch < state.epoch || id.version <= state.top || isAbandoned(state, id)
  );
}

/** Appends `item` and drops the oldest items beyond `length`. */
export function pushBounded<T>(ring: readonly T[], item: T, length: number): T[] {
  return [...ring, item].slice(-length);
}
