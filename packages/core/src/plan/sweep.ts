/**
 * What a sweep may delete: an object that can never become part of a checkpoint, and that no
 * checkpoint of the catalog holds. One state of the catalog shows both facts, and both stay true
 * from then on. So a plan may be carried out late, twice, or in part.
 *
 * - The listing is older than the state. So a key in it cannot be of a lineage or epoch that the
 *   state has not reached. If one is, an older catalog was restored, and no conclusion is safe.
 * - A checkpoint holds what its manifest lists, below any prefix and whatever its own state is.
 * - Age plays no part: a slow writer may still be alive.
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

/** The objects of a run, listed before its catalog was read. */
export interface RunListing {
  /** Below `version_{v}/`. */
  readonly objects: readonly ListedObject[];
  /** Below `writers/`. */
  readonly claims: readonly ListedObject[];
  readonly leases: readonly (ListedObject & { readonly createdAtMs: number })[];
}

/**
 * All keys that one checkpoint of the catalog holds: manifest, receipts, file lists, payloads; or
 * its prefix, for everything below it.
 */
export type HeldKeys = readonly string[];

/**
 * Objects to delete, in this order. A process that still finds a manifest then finds the whole
 * checkpoint, or sees what is missing.
 */
export interface SweepPlan {
  readonly payloads: readonly ListedObject[];
  readonly fileLists: readonly ListedObject[];
  readonly receipts: readonly ListedObject[];
  readonly manifests: readonly ListedObject[];
  /**
   * Claims of past epochs. Those of a past lineage stay: they show which lives began before the
   * rollback.
   */
  readonly claims: readonly ListedObject[];
  /** Objects of versions that their writers can still finish. */
  readonly unfinished: readonly ListedObject[];
  /** Objects without a known reference; a manifest that a rebuild skipped may refer to them. */
  readonly skipped: readonly ListedObject[];
  /** Keys that do not belong to a run; they are never deleted. */
  readonly foreign: readonly ListedObject[];
}

/**
 * `held`: for every checkpoint in `state`; if one were missing, live objects would be deleted.
 * `StoreRegressed`: a key is of a lineage or epoch that the state has not reached. Cost: a pass
 * over the listing and one over the held keys.
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

export interface PageSweep {
  readonly garbage: readonly ListedObject[];
  /**
   * Pages far ahead of a rebuilt catalog. If one is of this run, an older catalog was restored.
   * Another rebuild at the same time, which did not win, may have left the others.
   */
  readonly ahead: readonly ListedObject[];
}

/**
 * Pages that no entry refers to and none ever will. A page is written before the entry with its
 * number. A later entry refers only to pages that its parent refers to, or that have its own
 * number. So once its number is reached, a page is garbage if the newest entry does not refer to
 * it.
 *
 * `pages`: listed before that entry was read, so the entry is at most one behind any of them. If it
 * is further behind, an older catalog was restored (`StoreRegressed`). A rebuild numbers its pages
 * by the time, far ahead; they are left alone until the catalog reaches that number.
 */
export function planPageSweep(
  pages: readonly ListedObject[],
  { seq, state }: { readonly seq: number; readonly state: State },
): PageSweep {
  const referred = new Set(state.pages.map(pageKeyOf));
  const garbage: ListedObject[] = [];
  const ahead: ListedObject[] = [];
  for (const page of pages) {
    const pageSeq = parsePageKey(page.key);
    if (pageSeq === null || referred.has(page.key)) continue;
    if (pageSeq <= seq) garbage.push(page);
    else if (pageSeq === seq + 1) continue;
    else if (pageSeq < REBUILT_SEQ_MIN) throw olderCatalog(page.key, pageSeq, seq);
    else if (seq >= REBUILT_SEQ_MIN) ahead.push(page);
  }
  return { garbage, ahead };
}

/** `StoreRegressed`: a page of this run is further ahead than its catalog allows. */
export function olderCatalog(key: string, pageSeq: number, seq: number): CheckpointError {
  return new CheckpointError(
    'StoreRegressed',
    `${key} belongs to entry ${pageSeq}, but the newest is ${seq}: an older catalog was restored, so nothing is deleted`,
    { context: { key } },
  );
}

/** The first number of a rebuilt catalog is a time in milliseconds since 1970. */
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
 * True if it can never become part of a checkpoint. Once a newer life of the writer has registered,
 * older receipts and file lists are over. Payloads are not: the new life may resume an upload of
 * its predecessor.
 */
function isOver(found: Found, state: State): boolean {
  if (isUncommittable(state, found.id)) return true;
  return 'writer' in found && found.incarnation < incarnationOf(state, found.writer);
}

/**
 * A manifest that a rebuild skipped lists objects of its own checkpoint. It also lists objects,
 * below other prefixes, of checkpoints that were committed before it: of an earlier lineage, or of
 * a lower version in its own. It is not known which ones it lists.
 */
function mayBeOfSkipped(id: CheckpointId, { skippedManifests }: State): boolean {
  return skippedManifests.some((key) => {
    const skipped = parseManifestKey(key)?.id;
    if (!skipped) return true;
    return id.lineage < skipped.lineage || (id.lineage === skipped.lineage && id.version <= skipped.version);
  });
}

/** `StoreRegressed` names the first key of a lineage or epoch that the catalog has not reached. */
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
    `${key} is of lineage ${at.lineage}, epoch ${at.epoch}, but the catalog is only at lineage ${state.lineage}, epoch ${state.epoch}: an older catalog was restored, so nothing is deleted`,
    { context: { key } },
  );
}

/**
 * True if no process can finish this upload any more. The key of the object is checked too: the
 * record holds what its writer intended, the key what the store will create. `StoreRegressed` as in
 * `planSweep`. `recordKey`: for that message.
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

/** Such a lease may have expired long ago; its record tells. Younger leases need not be read. */
export function mayBeLongOver(ageMs: number): boolean {
  return ageMs >= DAY_MS;
}

/**
 * Expired so long ago, by the store's clock, that the record is no longer needed to find its
 * holder.
 */
export function isLongOver({ ttlMs }: Pick<ReadLease, 'ttlMs'>, ageMs: number): boolean {
  return mayBeLongOver(ageMs) && ageMs >= 10 * ttlMs;
}
