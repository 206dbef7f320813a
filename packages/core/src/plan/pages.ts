/**
 * Older checkpoints are in pages: immutable records that the state of the catalog refers to. Pure.
 *
 * A state from an entry is *closed*: it holds the newest checkpoints and references to pages. A
 * query that a closed page could answer throws `PageFault`. The caller reads those pages, opens
 * them (`openPages`) and repeats the query. So no query is answered from part of the checkpoints,
 * and a query about the newest ones reads no page at all.
 *
 * A decision is made on a state in which the pages it needs are open. `closePages` puts its result
 * back into pages. A page without a change keeps its reference; any other becomes a new page under
 * the number of the entry to be written.
 */

import {
  type CatalogCheckpoint,
  type CheckpointId,
  encodeRecord,
  idEquals,
  type PageRef,
  pageKey,
  type State,
} from '../format/index.ts';

/** The pages that a query needs. */
export class PageFault extends Error {
  readonly pages: readonly PageRef[];

  constructor(pages: readonly PageRef[]) {
    super(`${pages.length} pages of the catalog must be read first`);
    this.name = 'PageFault';
    this.pages = pages;
  }
}

/** Throws `PageFault` unless `pages` is empty. */
export function demandPages(pages: readonly PageRef[]): void {
  if (pages.length > 0) throw new PageFault(pages);
}

/** A page that was read. */
export interface OpenPage {
  readonly ref: PageRef;
  readonly checkpoints: readonly CatalogCheckpoint[];
}

/** A page to create before the entry that refers to it. */
export interface NewPage {
  readonly key: string;
  readonly bytes: Uint8Array;
}

export interface PageSizes {
  /**
   * An entry with more checkpoints is split. The latest, and the one that a rollback resumed from,
   * stay in it even then.
   */
  readonly entryCheckpointsMax: number;
}

/**
 * A page has at most about this many bytes, unless one checkpoint is larger. A split entry keeps
 * about as many.
 */
const PAGE_BYTES_MAX = 1024 * 1024;
/** A larger entry is split. */
const ENTRY_BYTES_MAX = 2 * PAGE_BYTES_MAX;
/**
 * A changed page is sparse if it is filled to less than 1 / `SPARSE_SHARE`. A sparse page is merged
 * with a neighbour that has room.
 */
const SPARSE_SHARE = 4;

export function pageKeyOf({ seq, sha256 }: Pick<PageRef, 'seq' | 'sha256'>): string {
  return pageKey(seq, sha256);
}

/** The order of commits: by lineage, then by version, which grows within a lineage. */
export function compareCommits(a: CheckpointId, b: CheckpointId): number {
  if (a.lineage !== b.lineage) return a.lineage - b.lineage;
  return a.version === b.version ? 0 : a.version < b.version ? -1 : 1;
}

/** True if this page would be the one that holds the checkpoint. */
export function covers({ first, last }: PageRef, id: CheckpointId): boolean {
  return isWithin(id, first, last);
}

function isWithin(id: CheckpointId, first: CheckpointId, last: CheckpointId): boolean {
  return compareCommits(first, id) <= 0 && compareCommits(id, last) <= 0;
}

/**
 * The state with these pages open: their checkpoints are merged into the others, in order of
 * commit.
 */
export function openPages(state: State, open: readonly OpenPage[]): State {
  if (open.length === 0) return state;
  const keys = new Set(open.map(({ ref }) => pageKeyOf(ref)));
  const checkpoints = [...open.flatMap((page) => page.checkpoints), ...state.checkpoints];
  return {
    ...state,
    checkpoints: checkpoints.sort((a, b) => compareCommits(a.id, b.id)),
    pages: state.pages.filter((ref) => !keys.has(pageKeyOf(ref))),
  };
}

/**
 * The state as an entry holds it, and the pages to create before that entry. `state`: with the
 * pages `open` open. `seq`: the number of that entry. `PageFault`: other pages must be opened
 * first. Cost: one pass over the checkpoints of the entry and of the open pages.
 */
export function closePages(
  state: State,
  open: readonly OpenPage[],
  entry: PageSizes & { readonly runId: string; readonly seq: number },
): { readonly state: State; readonly pages: readonly NewPage[] } {
  const pageCheckpointsMax = Math.max(1, Math.floor(entry.entryCheckpointsMax / 2));
  const { staying, moving } = splitEntry(state, open, { ...entry, pageCheckpointsMax });
  const segments = segmentsOf(state, open, moving);
  const merged = mergeSegments(segments, state.pages, pageCheckpointsMax);
  const pages: NewPage[] = [];
  const refs = merged.flatMap(({ items, unchanged }) => {
    if (unchanged) return [unchanged.ref];
    return chunksOf(items, pageCheckpointsMax).map((chunk) => {
      const page = newPage(chunk, entry);
      pages.push(page);
      return page.ref;
    });
  });
  const all = [...state.pages, ...refs].sort((a, b) => compareCommits(a.first, b.first));
  return { state: { ...state, checkpoints: staying, pages: all }, pages };
}

/**
 * Separates what stays in the entry from what moves into pages. The latest never leaves the entry,
 * because readers get it from there; nor does `resumedFrom`.
 */
function splitEntry(
  state: State,
  open: readonly OpenPage[],
  { entryCheckpointsMax, pageCheckpointsMax }: PageSizes & { readonly pageCheckpointsMax: number },
): { staying: CatalogCheckpoint[]; moving: CatalogCheckpoint[] } {
  const fixed = [state.latest, state.resumedFrom].filter((id) => id !== undefined);
  const isFixed = ({ id }: CatalogCheckpoint) => fixed.some((other) => idEquals(other, id));
  const isPaged = ({ id }: CatalogCheckpoint) => open.some(({ ref }) => covers(ref, id));
  const staying: CatalogCheckpoint[] = [];
  const moving: CatalogCheckpoint[] = [];
  for (const each of state.checkpoints) (isPaged(each) && !isFixed(each) ? moving : staying).push(each);
  const weights = staying.map(weightOf);
  const isFull = staying.length > entryCheckpointsMax || sum(weights) > ENTRY_BYTES_MAX;
  if (!isFull) return { staying, moving };
  // One checkpoint more than fits makes exactly one full page.
  const keptMax = entryCheckpointsMax + 1 - pageCheckpointsMax;
  let count = 0;
  let bytes = 0;
  const kept = staying.toReversed().filter((each, index) => {
    count++;
    bytes += weights[staying.length - 1 - index] ?? 0;
    return isFixed(each) || (count <= keptMax && bytes <= PAGE_BYTES_MAX);
  });
  const keeps = new Set(kept);
  const leaving = staying.filter((each) => !keeps.has(each));
  // A checkpoint that returned to the entry long ago goes back into the page it came from.
  demandPages(state.pages.filter((ref) => leaving.some(({ id }) => covers(ref, id))));
  return { staying: kept.reverse(), moving: [...moving, ...leaving] };
}

/** Checkpoints for one page, or for several adjacent pages. */
interface Segment {
  readonly items: readonly CatalogCheckpoint[];
  /** The page that holds exactly these checkpoints. */
  readonly unchanged?: OpenPage | undefined;
}

/**
 * One segment for each open page that is not empty, and one for the checkpoints that the entry has
 * no room for; in order of commit.
 */
function segmentsOf(
  state: State,
  open: readonly OpenPage[],
  moving: readonly CatalogCheckpoint[],
): Segment[] {
  const rest = new Set(moving);
  const segments: Segment[] = open.map((page) => {
    const items = moving.filter(({ id }) => covers(page.ref, id));
    for (const each of items) rest.delete(each);
    const isSame =
      items.length === page.checkpoints.length &&
      items.every((each, index) => each === page.checkpoints[index]);
    return { items, unchanged: isSame ? page : undefined };
  });
  let group: CatalogCheckpoint[] = [];
  const boundaries = [...state.pages, ...open.map(({ ref }) => ref)];
  for (const each of rest) {
    const before = group.at(-1);
    if (before && boundaries.some((ref) => isWithin(ref.first, before.id, each.id))) {
      segments.push({ items: group });
      group = [];
    }
    group.push(each);
  }
  segments.push({ items: group });
  return segments
    .filter(({ items }) => items.length > 0)
    .sort((a, b) => compareCommits(firstId(a), firstId(b)));
}

/**
 * Joins neighbours if both fit into one page and one of them is changed and sparse. This keeps the
 * number of references low, however many checkpoints are removed. `closed`: pages between which
 * they lie. `PageFault` names one that must be joined with a sparse neighbour.
 */
function mergeSegments(
  segments: readonly Segment[],
  closed: readonly PageRef[],
  pageCheckpointsMax: number,
): Segment[] {
  const isSparse = ({ items, unchanged }: Segment) =>
    !unchanged && items.length < pageCheckpointsMax / SPARSE_SHARE;
  const merged: Segment[] = [];
  for (const segment of segments) {
    const before = merged.at(-1);
    const items = [...(before?.items ?? []), ...segment.items];
    const canJoin =
      before !== undefined &&
      (isSparse(before) || isSparse(segment)) &&
      fitsOnePage(items, pageCheckpointsMax) &&
      !closed.some(({ first }) => isWithin(first, firstId(before), firstId(segment)));
    if (canJoin) merged[merged.length - 1] = { items };
    else merged.push(segment);
  }
  for (const segment of merged) {
    if (!isSparse(segment)) continue;
    const older = closed.findLast(({ last }) => compareCommits(last, firstId(segment)) < 0);
    const newer = closed.find(({ first }) => compareCommits(firstId(segment), first) < 0);
    for (const neighbour of [older, newer]) {
      const isBeside =
        neighbour && !merged.some((other) => other !== segment && isBetween(other, segment, neighbour));
      if (isBeside && neighbour.count + segment.items.length <= pageCheckpointsMax) demandPages([neighbour]);
    }
  }
  return merged;
}

function isBetween(other: Segment, segment: Segment, ref: PageRef): boolean {
  const [a, b] = [firstId(segment), ref.first];
  return compareCommits(a, b) < 0 ? isWithin(firstId(other), a, b) : isWithin(firstId(other), b, a);
}

function firstId({ items }: Segment): CheckpointId {
  return (items[0] as CatalogCheckpoint).id;
}

function fitsOnePage(items: readonly CatalogCheckpoint[], pageCheckpointsMax: number): boolean {
  return items.length <= pageCheckpointsMax && sum(items.map(weightOf)) <= PAGE_BYTES_MAX;
}

/** Splits into as few pages as possible, filled about equally. */
function chunksOf(items: readonly CatalogCheckpoint[], pageCheckpointsMax: number): CatalogCheckpoint[][] {
  const bytes = sum(items.map(weightOf));
  const parts = Math.ceil(Math.max(items.length / pageCheckpointsMax, bytes / PAGE_BYTES_MAX));
  const size = Math.ceil(items.length / parts);
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

function newPage(
  checkpoints: readonly CatalogCheckpoint[],
  { runId, seq }: { readonly runId: string; readonly seq: number },
): NewPage & { ref: PageRef } {
  const { bytes, sha256 } = encodeRecord('catalog-page', { format: undefined, runId, seq, checkpoints });
  const ref = { seq, sha256, ...summaryOfPage(checkpoints) };
  return { key: pageKeyOf(ref), bytes, ref };
}

/** A reference's summary of its page. `checkpoints`: at least one, in order of commit. */
export function summaryOfPage(checkpoints: readonly CatalogCheckpoint[]): Omit<PageRef, 'seq' | 'sha256'> {
  const [first, last] = [checkpoints[0], checkpoints.at(-1)] as [CatalogCheckpoint, CatalogCheckpoint];
  const live = checkpoints.filter(({ state }) => state === 'LIVE');
  const path = checkpoints.filter(({ rolledBack }) => !rolledBack);
  return {
    first: first.id,
    last: last.id,
    count: checkpoints.length,
    liveCount: live.length,
    liveVerifiedCount: live.filter(({ verified }) => verified).length,
    livePathCount: live.filter(({ rolledBack }) => !rolledBack).length,
    topOnPath: highestVersion(path),
  };
}

function highestVersion(checkpoints: readonly CatalogCheckpoint[]): bigint {
  let highest = -1n;
  for (const { id } of checkpoints) if (id.version > highest) highest = id.version;
  return highest;
}

/** Approximate size of the checkpoint in a record, in bytes. */
function weightOf(checkpoint: CatalogCheckpoint): number {
  const { manifestKey, metrics, annotatedMetadata, pins, reason, bases } = checkpoint;
  const names = Object.keys(metrics);
  const texts = [manifestKey, reason, ...pins, ...names, ...Object.entries(annotatedMetadata).flat()];
  return 300 + sum(texts.map((text) => 4 + 2 * text.length)) + 24 * names.length + 60 * bases.length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
