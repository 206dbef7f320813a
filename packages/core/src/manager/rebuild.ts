/**
 * A new catalog, where the catalog is gone. plan/rebuild.ts says which manifests it is made of.
 *
 * Its first entry has the store's time in milliseconds for a number, far above any that was: a request of an old writer that is still on
 * its way can then never become the highest. But two rebuilds would draw different numbers, and a writer may begin or continue a catalog
 * meanwhile. The order makes one of them win for certain:
 *
 * 1. The bytes of the entry are created as entry 1: the mark. Only one rebuild can do that. Every other client stops where it reads the
 *    mark, and a rebuild that finds one goes on with it.
 * 2. The catalog is listed again. Any entry but the mark, and those of this rebuild's own run, is a Conflict.
 * 3. The entry is created under its own number, and the catalog listed: it must be the highest, or its own run has gone on.
 * 4. Only then the mark is deleted. Until step 3 nothing else can become entry 1, and from then on entry 1 decides nothing.
 *
 * What is created between steps 2 and 3 follows an entry that is gone: no client builds on it or believes it (see catalog.ts).
 */

import type { WaitOptions } from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import type { LeftOutManifest, RebuildOptions, RebuildResult } from '../contract/upkeep.ts';
import {
  type CatalogEntry,
  catalogKey,
  decodeRecord,
  encodeRecord,
  parseCheckpointPrefix,
  parseClaimKey,
  parseLeaseKey,
  runKey,
} from '../format/index.ts';
import { closePages } from '../plan/pages.ts';
import { FIRST_SEQ, isRebuildMark, REBUILD_KIND, rebuiltState } from '../plan/rebuild.ts';
import { allCheckpoints } from '../plan/state.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline, withLastLook } from './deadline.ts';
import { decide } from './decide.ts';
import { type Engine, machineTimeMs, newId } from './engine.ts';
import { type FoundCheckpoints, findCheckpoints } from './found-manifests.ts';
import { inBatches } from './in-batches.ts';
import { summaryOf } from './manifest.ts';
import {
  createRecord,
  deleteForTidiness,
  endOf,
  getOrNull,
  isUnanswered,
  isUnreadable,
  unknownRecord,
} from './records.ts';
import { EVERYTHING, listRun, type WholeListing } from './run-listing.ts';

export async function rebuildCatalog(
  engine: Engine,
  catalog: Catalog,
  options: RebuildOptions,
): Promise<RebuildResult> {
  const { signal } = options;
  const begun = await readBegun(engine, catalog, signal);
  const formerRunId = await readFormerRunId(engine, signal);
  if (begun) {
    const { answer: checkpoints } = await catalog.ask(({ state }) => allCheckpoints(state), signal, begun);
    return write(engine, catalog, { entry: begun, formerRunId, checkpoints, skipped: heldBy(begun) }, signal);
  }
  const listing = await listRun(engine, EVERYTHING, signal);
  const found = await findCheckpoints(engine, listing, options).catch(async (error: unknown) => {
    await readBegun(engine, catalog, signal); // another rebuild may be done, and a collection under way on its catalog
    throw error;
  });
  const entry = await firstEntry(engine, { listing, found, formerRunId }, signal);
  return write(engine, catalog, { entry, formerRunId, ...found }, signal);
}

/** The person takes back what `skip` said. */
export async function releaseSkipped(
  engine: Engine,
  catalog: Catalog,
  manifestKey: string,
  { signal }: WaitOptions,
): Promise<void> {
  await decide(
    engine,
    catalog,
    ({ state: { lineage, epoch } }) => ({
      kind: 'release',
      lineage,
      epoch,
      manifestKey,
      reason: manifestKey,
    }),
    { what: 'the release', signal },
  );
}

/** The entry of a rebuild that was interrupted; `null`: there is no catalog at all. `Conflict`: there is one. */
async function readBegun(
  engine: Engine,
  catalog: Catalog,
  signal: AbortSignal | undefined,
): Promise<CatalogEntry | null> {
  const seqs = await catalog.listSeqs(signal);
  const highest = seqs.at(-1);
  if (highest === undefined) return null;
  const key = catalogKey(highest);
  const bytes = highest === FIRST_SEQ ? await getOrNull(engine.records, key, signal) : null;
  const entry = bytes && decodeRecord('catalog-entry', bytes, { key, store: engine.store.uri });
  if (entry && isRebuildMark(entry, highest)) return entry;
  throw conflict(engine, `there is a catalog, and its newest entry is ${highest}`);
}

/** Of the run as `run.json` knows it. That record stays: what counts is what the entries say. */
async function readFormerRunId(engine: Engine, signal: AbortSignal | undefined): Promise<string | null> {
  const bytes = await getOrNull(engine.records, runKey, signal);
  return bytes && decodeRecord('run', bytes, { key: runKey, store: engine.store.uri }).runId;
}

/** Its pages are durable before the mark, and the mark before the entry: a process that goes on with the mark finds them. */
async function firstEntry(
  engine: Engine,
  from: { listing: WholeListing; found: FoundCheckpoints; formerRunId: string | null },
  signal: AbortSignal | undefined,
): Promise<CatalogEntry> {
  const entry = planEntry(engine, from);
  const { entryCheckpointsMax } = engine.settings;
  const { runId, seq } = entry;
  const { state, pages } = closePages(entry.state, [], { entryCheckpointsMax, runId, seq });
  const { preferredConcurrency } = engine.store.capabilities;
  await inBatches(pages, preferredConcurrency, ({ key, bytes }) => createRecord(engine, key, bytes, signal));
  return { ...entry, state };
}

function planEntry(
  engine: Engine,
  {
    listing,
    found: { checkpoints, skipped },
    formerRunId,
  }: { listing: WholeListing; found: FoundCheckpoints; formerRunId: string | null },
): CatalogEntry {
  const { lineage, epoch: highest } = highestOf(listing);
  const epoch = highest + 1;
  const txnId = newId(engine);
  const attempt = `drawn-${newId(engine)}`;
  const held = skipped.filter(({ isHeld }) => isHeld).map(({ key }) => key);
  const reasons = [
    `the catalog was gone; rebuilt from ${checkpoints.length} manifests`,
    ...(formerRunId === null ? [] : [`before, this was run ${formerRunId}`]),
    ...held.map((key) => `skipped as asked, and held from every sweep: ${key}`),
  ];
  return {
    format: undefined,
    runId: newId(engine),
    seq: Math.round(listing.storeTimeMs),
    entryId: newId(engine),
    parentId: '',
    transaction: {
      id: txnId,
      kind: REBUILD_KIND,
      lineage,
      epoch,
      checkpoint: undefined,
      checkpoints: [],
      reason: reasons.join('; '),
      host: engine.process.host,
      pid: engine.process.pid,
      atMs: machineTimeMs(engine),
      attempt,
    },
    state: rebuiltState(checkpoints, { lineage, epoch, attempt, txnId, skippedManifests: held }),
  };
}

function heldBy({ state }: CatalogEntry): LeftOutManifest[] {
  const reason = 'it was skipped, as asked, when this rebuild began';
  return state.skippedManifests.map((key) => ({ key, reason, isHeld: true }));
}

/** What is written, and what the caller is told of it. */
interface Planned extends FoundCheckpoints {
  readonly entry: CatalogEntry;
  readonly formerRunId: string | null;
}

async function write(
  engine: Engine,
  catalog: Catalog,
  { entry, formerRunId, checkpoints, skipped }: Planned,
  signal: AbortSignal | undefined,
): Promise<RebuildResult> {
  const { clock, settings } = engine;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'rebuilding the catalog', signal };
  await withDeadline(bounds, (until) => writeEntry(engine, catalog, entry, until));
  catalog.remember(entry);
  await deleteMark(engine);
  const summaries = checkpoints.map((each) => summaryOf(entry.state, each, catalog.storeTimeMs)).reverse();
  return { runId: entry.runId, formerRunId, checkpoints: summaries, skipped };
}

/** The steps above. Each may be repeated, by this process or another. */
async function writeEntry(
  engine: Engine,
  catalog: Catalog,
  entry: CatalogEntry,
  signal: AbortSignal,
): Promise<void> {
  const { bytes } = encodeRecord('catalog-entry', entry);
  const key = catalogKey(entry.seq);
  // From the mark on another process may go on with it, so what ends this one does not end the rebuild.
  const decides = unknownRecord(engine, { what: 'the new catalog', key, bytes });
  const mark = await createRecord(engine, catalogKey(FIRST_SEQ), bytes, signal, decides);
  if (!mark.isOurs) throw conflict(engine, 'another rebuild or a new writer has come first');
  try {
    await ensureRun(engine, entry.runId, signal);
    if (await isRebuilt(engine, catalog, entry, signal)) return;
    const created = await createRecord(engine, key, bytes, signal);
    if (!created.isOurs) throw conflict(engine, `entry ${entry.seq} is another`);
    const look = (until: AbortSignal) => isRebuilt(engine, catalog, entry, until);
    if (await withLastLook(engine.clock, signal, look)) return;
  } catch (error) {
    throw isUnanswered(error) || isCheckpointError(error, 'Aborted') || signal.aborted
      ? decides(endOf(error))
      : error;
  }
  const message = `${key} was created, and the store does not show it`;
  throw new CheckpointError('StoreRegressed', message, { context: { store: engine.store.uri, key } });
}

/** The newest entry is of the run that the rebuild begins; `false`: there is nothing but the mark. `Conflict`: another is the newest. */
async function isRebuilt(
  engine: Engine,
  catalog: Catalog,
  { runId }: CatalogEntry,
  signal: AbortSignal,
): Promise<boolean> {
  const newest = (await catalog.listSeqs(signal)).at(-1) ?? FIRST_SEQ;
  if (newest === FIRST_SEQ) return false;
  if ((await runIdOf(engine, newest, signal)) === runId) return true;
  await deleteMark(engine); // the newest entry is above it: entry 1 decides nothing any more
  throw conflict(engine, `entry ${newest} was written meanwhile`);
}

/** `undefined`: the entry cannot be read, or is gone, so higher ones were written. */
async function runIdOf(engine: Engine, seq: number, signal: AbortSignal): Promise<string | undefined> {
  const key = catalogKey(seq);
  try {
    const bytes = await getOrNull(engine.records, key, signal);
    return bytes ? decodeRecord('catalog-entry', bytes, { key, store: engine.store.uri }).runId : undefined;
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

function deleteMark(engine: Engine): Promise<void> {
  return deleteForTidiness(engine, [catalogKey(FIRST_SEQ)], 'deleting the mark of a rebuild');
}

function conflict({ store }: Engine, what: string): CheckpointError {
  const advice = ['look at the catalog that is there (`holdfast log`, `holdfast fsck`) before you try again'];
  return new CheckpointError('Conflict', `the catalog of ${store.uri} is not rebuilt: ${what}`, {
    context: { store: store.uri, advice },
  });
}

/** A `run.json` that is there stays, with the id of the run as it was. */
async function ensureRun(engine: Engine, runId: string, signal: AbortSignal): Promise<void> {
  if (await getOrNull(engine.records, runKey, signal)) return;
  const createdAtMs = machineTimeMs(engine);
  const { bytes } = encodeRecord('run', { format: undefined, runId, policy: undefined, createdAtMs });
  await createRecord(engine, runKey, bytes, signal);
}

/** Of all keys that tell. */
function highestOf({ objects, claims, leases }: WholeListing): { lineage: number; epoch: number } {
  const highest = { lineage: 1, epoch: 0 };
  const add = (at: { lineage: number; epoch: number } | null | undefined) => {
    if (!at) return;
    highest.lineage = Math.max(highest.lineage, at.lineage);
    highest.epoch = Math.max(highest.epoch, at.epoch);
  };
  for (const { key } of objects) add(parseCheckpointPrefix(key));
  for (const { key } of claims) add(parseClaimKey(key));
  for (const { key } of leases) add(parseLeaseKey(key)?.id);
  return highest;
}
