/**
 * What a sweep may delete: an object that can never become part of a checkpoint, and that no checkpoint of the catalog holds on to. Both
 * are read off one state of the catalog, and both stay true once they are: so a plan may be carried out late, twice, or in part.
 *
 * - The listing is older than the state. So no key in it can be of a lineage or epoch that the state has not come to, unless the catalog is
 *   an old one that somebody has put back: then nothing may be concluded from it.
 * - A checkpoint holds on to what its manifest lists, below whichever prefix it lies, and whatever its own state is.
 * - Age plays no part: a slow writer is not a dead one.
 */

import { CheckpointError } from '../contract/errors.ts';
import {
  type CheckpointId,
  checkpointPrefix,
  parseCheckpointPrefix,
  parseClaimKey,
  parseFileListKey,
  parseLeaseKey,
  parseManifestKey,
  parsePageKey,
  parsePayloadKey,
  parseReceiptKey,
  type ReadLease,
  type State,
} from '../format/index.ts';
import { pageKeyOf } from './pages.ts';
import { incarnationOf, isUncommittable } from './state.ts';

/** Takes about 200 bytes of memory, most of it the key. */
export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
}

/** What lies in a run, as it was before its catalog was read. */
export interface RunListing {
  /** Below `version_{v}/`. */
  readonly objects: readonly ListedObject[];
  /** Below `writers/`. */
  readonly claims: readonly ListedObject[];
  readonly leases: readonly (ListedObject & { readonly createdAtMs: number })[];
}

/** All keys that one checkpoint of the catalog holds on to: manifest, receipts, file lists, payloads; or its prefix, for all that lies below it. */
export type HeldKeys = readonly string[];

/** To be deleted in this order, so that whoever finds a manifest finds all of its checkpoint, or sees what is missing. */
export interface SweepPlan {
  readonly payloads: readonly ListedObject[];
  readonly fileLists: readonly ListedObject[];
  readonly receipts: readonly ListedObject[];
  readonly manifests: readonly ListedObject[];
  /** Of an epoch that has passed. Those of a passed lineage stay: they tell which lives began before the rollback. */
  readonly claims: readonly ListedObject[];
  /** Their writers can still finish them. */
  readonly unfinished: readonly ListedObject[];
  /** Nothing refers to them, as far as is known: but a manifest that a rebuild skipped may. */
  readonly skipped: readonly ListedObject[];
  /** Keys that are none of a run: nobody deletes them. */
  readonly foreign: readonly ListedObject[];
}

/**
 * `held`: of every checkpoint in `state`, or something that is live would be deleted. `StoreRegressed`: a key is of a lineage or epoch that
 * the state has not come to. Cost: a pass over the listing and one over the held keys.
 */
export function planSweep(listing: RunListing, state: State, held: Iterable<HeldKeys>): SweepPlan {
  assertNotAhead(listing, state);
  const isHeld = new Set<string>();
  for (const keys of held) for (const key of keys) isHeld.add(key);
  const plan = {
    payloads: [] as ListedObject[],
    fileLists: [] as ListedObject[],
    receipts: [] as ListedObject[],
    manifests: [] as ListedObject[],
    claims: [] as ListedObject[],
    unfinished: [] as ListedObject[],
    skipped: [] as ListedObject[],
    foreign: [] as ListedObject[],
  };
  for (const object of listing.objects) {
    const found = kindOf(object.key);
    if (found === null) plan.foreign.push(object);
    else if (isHeld.has(object.key) || isHeld.has(checkpointPrefix(found.id))) continue;
    else if (!isOver(found, state)) plan.unfinished.push(object);
    else if (mayBeOfSkipped(found.id, state)) plan.skipped.push(object);
    else plan[found.kind].push(object);
  }
  for (const object of listing.claims) {
    const claim = parseClaimKey(object.key);
    if (claim === null) plan.foreign.push(object);
    else if (claim.epoch < state.epoch) plan.claims.push(object);
  }
  for (const object of listing.leases) if (parseLeaseKey(object.key) === null) plan.foreign.push(object);
  return plan;
}

/**
 * Pages that no entry refers to and none ever will. A page is written before the entry of its number, and a later entry refers only to
 * pages that its parent refers to or that have its own number. So a page of a number that was reached is over once the newest entry does
 * not refer to it. `pages`: listed before that entry was read, which then is at most one behind any of them: else the catalog is an old
 * one that was put back (`StoreRegressed`). A rebuild numbers its pages by the time, far ahead; they are left alone until it is reached.
 */
export function planPageSweep(
  pages: readonly ListedObject[],
  { seq, state }: { readonly seq: number; readonly state: State },
): ListedObject[] {
  const referred = new Set(state.pages.map(pageKeyOf));
  return pages.filter(({ key }) => {
    const pageSeq = parsePageKey(key);
    if (pageSeq === null || referred.has(key)) return false;
    if (pageSeq <= seq) return true;
    if (pageSeq === seq + 1 || pageSeq >= REBUILT_SEQ_MIN) return false;
    throw new CheckpointError(
      'StoreRegressed',
      `${key} belongs to entry ${pageSeq}, but the newest is ${seq}: an older catalog was put back, so nothing is deleted`,
      { context: { key } },
    );
  });
}

/** A rebuilt catalog begins with a number of milliseconds since 1970. */
const REBUILT_SEQ_MIN = 1_000_000_000_000;

type Found =
  | { readonly kind: 'payloads' | 'manifests'; readonly id: CheckpointId }
  | {
      readonly kind: 'receipts' | 'fileLists';
      readonly id: CheckpointId;
      readonly writer: number;
      readonly incarnation: number;
    };

function kindOf(key: string): Found | null {
  const payload = parsePayloadKey(key);
  if (payload) return { kind: 'payloads', id: payload.id };
  const receipt = parseReceiptKey(key);
  if (receipt) return { kind: 'receipts', ...receipt };
  const fileList = parseFileListKey(key);
  if (fileList) return { kind: 'fileLists', ...fileList };
  const manifest = parseManifestKey(key);
  return manifest && { kind: 'manifests', id: manifest.id };
}

/**
 * It can never become part of a checkpoint. That a newer life of its writer has registered ends a receipt and its file lists, but no payload:
 * the successor may go on with an upload of its predecessor.
 */
function isOver(found: Found, state: State): boolean {
  if (isUncommittable(state, found.id)) return true;
  return 'writer' in found && found.incarnation < incarnationOf(state, found.writer);
}

/**
 * A manifest that a rebuild skipped lists objects of its own checkpoint and, below other prefixes, of checkpoints that were committed
 * before it: of an earlier lineage, or of a lower version in its own. Which ones it lists is not known.
 */
function mayBeOfSkipped(id: CheckpointId, { skippedManifests }: State): boolean {
  return skippedManifests.some((key) => {
    const skipped = parseManifestKey(key)?.id;
    if (!skipped) return true;
    return id.lineage < skipped.lineage || (id.lineage === skipped.lineage && id.version <= skipped.version);
  });
}

/** `StoreRegressed` names the first key of a lineage or epoch that the catalog has not come to. */
export function assertNotAhead({ objects, claims, leases }: RunListing, state: State): void {
  for (const { key } of objects) assertReached(key, parseCheckpointPrefix(key), state);
  for (const { key } of claims) assertReached(key, parseClaimKey(key), state);
  for (const { key } of leases) assertReached(key, parseLeaseKey(key)?.id, state);
}

function assertReached(
  key: string,
  at: { lineage: number; epoch: number } | null | undefined,
  state: State,
): void {
  if (!at || (at.lineage <= state.lineage && at.epoch <= state.epoch)) return;
  throw new CheckpointError(
    'StoreRegressed',
    `${key} is of lineage ${at.lineage}, epoch ${at.epoch}, but the catalog has only come to lineage ${state.lineage}, epoch ${state.epoch}: somebody has put back an older catalog, so nothing is deleted`,
    { context: { key } },
  );
}

/**
 * Nobody can finish this upload any more. The key it will make is asked too: a record says what its writer meant, the key what the store
 * does. `StoreRegressed` as in `planSweep`. `recordKey`: for that message.
 */
export function isUploadOver(
  upload: { readonly id?: CheckpointId | undefined; readonly key: string },
  state: State,
  recordKey: string = upload.key,
): boolean {
  const made = parsePayloadKey(upload.key)?.id;
  assertReached(recordKey, upload.id, state);
  assertReached(upload.key, made, state);
  return made !== undefined && isUncommittable(state, upload.id ?? made) && isUncommittable(state, made);
}

const DAY_MS = 24 * 60 * 60_000;

/** Such a lease may be over; whether it is, its record says. Younger ones need not be read. */
export function mayBeLongOver(ageMs: number): boolean {
  return ageMs >= DAY_MS;
}

/** Expired so long ago, by the store's clock, that nobody wonders any more who held it. */
export function isLongOver({ ttlMs }: Pick<ReadLease, 'ttlMs'>, ageMs: number): boolean {
  return mayBeLongOver(ageMs) && ageMs >= 10 * ttlMs;
}
