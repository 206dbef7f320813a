/**
 * A new catalog, where the catalog is gone. plan/rebuild.ts says which manifests it is made of.
 *
 * Its first entry has the store's time in milliseconds for a number, far above any that was: a request of an old writer that is still on
 * its way can then never become the highest. But two that rebuild at once would draw different numbers, and a writer that finds no catalog
 * begins with entry 1. So the bytes of the entry are created as entry 1 first, which only one of them all can do. It is the entry of
 * another number, so that whoever reads it there stops; and whoever rebuilds again after this process has died goes on with it.
 */

import type { WaitOptions } from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import type { RebuildResult } from '../contract/upkeep.ts';
import {
  type CatalogEntry,
  type CheckpointId,
  catalogKey,
  decodeRecord,
  encodeRecord,
  type FileRecord,
  parseCheckpointPrefix,
  parseClaimKey,
  parseLeaseKey,
  parseManifestKey,
  recordBytesMax,
  runKey,
  sha256,
  toHex,
} from '../format/index.ts';
import {
  chooseManifests,
  FIRST_SEQ,
  type FoundManifest,
  Inventory,
  isRebuildMark,
  REBUILD_KIND,
  type Rebuilt,
  rebuiltState,
} from '../plan/rebuild.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline, withLastLook } from './deadline.ts';
import { type Engine, newId } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { manifestProblem, summaryOf } from './manifest.ts';
import { createRecord, deleteForTidiness, endOf, getOrNull, unknownRecord } from './records.ts';
import { EVERYTHING, listRun, type WholeListing } from './run-listing.ts';
import { readNamedSlices } from './slices.ts';

type Skipped = RebuildResult['skipped'];

export async function rebuildCatalog(
  engine: Engine,
  catalog: Catalog,
  { signal }: WaitOptions,
): Promise<RebuildResult> {
  const begun = await readBegun(engine, catalog, signal);
  if (begun) return write(engine, catalog, begun, [], signal);
  const listing = await listRun(engine, EVERYTHING, signal);
  const { checkpoints, skipped } = await findCheckpoints(engine, listing, signal);
  const { lineage, epoch } = highestOf(listing);
  const txnId = newId(engine);
  const attempt = `drawn-${newId(engine)}`;
  const state = rebuiltState(checkpoints, { lineage, epoch: epoch + 1, attempt, txnId });
  const entry: CatalogEntry = {
    format: undefined,
    runId: newId(engine),
    seq: Math.round(listing.storeTimeMs),
    entryId: newId(engine),
    parentId: '',
    transaction: {
      id: txnId,
      kind: REBUILD_KIND,
      lineage,
      epoch: epoch + 1,
      checkpoint: undefined,
      checkpoints: [],
      reason: `the catalog was gone; rebuilt from ${checkpoints.length} manifests`,
      host: engine.process.host,
      pid: engine.process.pid,
      atMs: Math.round(engine.clock.nowMs()),
      attempt,
    },
    state,
  };
  return write(engine, catalog, entry, skipped, signal);
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

function conflict({ store }: Engine, what: string): CheckpointError {
  return new CheckpointError('Conflict', `the catalog of ${store.uri} is not rebuilt: ${what}`, {
    context: { store: store.uri },
  });
}

async function write(
  engine: Engine,
  catalog: Catalog,
  entry: CatalogEntry,
  skipped: Skipped,
  signal: AbortSignal | undefined,
): Promise<RebuildResult> {
  const { clock, settings } = engine;
  const { bytes } = encodeRecord('catalog-entry', entry);
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'rebuilding the catalog', signal };
  await withDeadline(bounds, async (until) => {
    await ensureRun(engine, entry.runId, until);
    const key = catalogKey(entry.seq);
    // From its mark on, another process may go on with it.
    const decides = unknownRecord(engine, { what: 'the new catalog', key, bytes });
    const first = await createRecord(engine, catalogKey(FIRST_SEQ), bytes, until, decides);
    if (!first.isOurs) throw conflict(engine, 'somebody else has begun one meanwhile');
    const writeAndLook = async () => {
      await createRecord(engine, key, bytes, until, decides);
      return withLastLook(clock, until, (late) => catalog.listSeqs(late));
    };
    const seqs = await writeAndLook().catch((error: unknown) => {
      throw decides(endOf(error));
    });
    const highest = seqs.at(-1);
    if (highest !== entry.seq) throw conflict(engine, `entry ${highest} was written meanwhile`);
  });
  catalog.remember(entry);
  await deleteForTidiness(engine, [catalogKey(FIRST_SEQ)], 'deleting the mark of a rebuild');
  const checkpoints = entry.state.checkpoints.map((each) => summaryOf(entry.state, each)).reverse();
  return { runId: entry.runId, checkpoints, skipped };
}

/** One that is there stays, with the id of the run as it was: what counts is what the entries say. */
async function ensureRun(engine: Engine, runId: string, signal: AbortSignal): Promise<void> {
  if (await getOrNull(engine.records, runKey, signal)) return;
  const createdAtMs = Math.round(engine.clock.nowMs());
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

/** One GET per manifest, and one for each record that it refers to. `NotFound`: there is none, or none whose files are all there. */
async function findCheckpoints(
  engine: Engine,
  listing: WholeListing,
  signal: AbortSignal | undefined,
): Promise<Rebuilt> {
  const sizes = new Map(listing.objects.map(({ key, sizeBytes }) => [key, sizeBytes]));
  const { preferredConcurrency } = engine.store.capabilities;
  const keys = listing.objects.flatMap(({ key }) => {
    const parsed = parseManifestKey(key);
    return parsed ? [{ key, ...parsed }] : [];
  });
  const read = await inBatches(keys, preferredConcurrency, (each) => readFound(engine, each, sizes, signal));
  const found = read.filter((each) => 'manifest' in each);
  const unreadable = read.filter((each) => 'reason' in each);
  const { checkpoints, skipped } = chooseManifests(
    found,
    unreadable.map(({ id }) => id),
  );
  const all = [...unreadable.map(({ key, reason }) => ({ key, reason })), ...skipped];
  if (checkpoints.length > 0) return { checkpoints, skipped: all };
  const { uri } = engine.store;
  const why = all[0]
    ? `none of the ${all.length} manifests can be used; ${all[0].reason}`
    : 'it has no manifest';
  throw new CheckpointError('NotFound', `there is nothing at ${uri} to rebuild a catalog from: ${why}`, {
    context: { store: uri },
  });
}

interface Unreadable {
  readonly key: string;
  readonly id: CheckpointId;
  readonly reason: string;
}

async function readFound(
  engine: Engine,
  { key, id, sha256Start }: { key: string; id: CheckpointId; sha256Start: string },
  sizes: ReadonlyMap<string, number>,
  signal: AbortSignal | undefined,
): Promise<FoundManifest | Unreadable> {
  try {
    const { bytes, createdAtMs } = await engine.records.get(key, { maxBytes: recordBytesMax(key), signal });
    const digest = sha256(bytes);
    const found = toHex(digest);
    if (!found.startsWith(sha256Start)) {
      return { key, id, reason: `${key} does not match the checksum in its name (found sha256 ${found})` };
    }
    const manifest = decodeRecord('manifest', bytes, { key, store: engine.store.uri });
    const unusable = manifestProblem(manifest, id);
    if (unusable) return { key, id, reason: `${key} cannot be used: ${unusable}` };
    const inventory = new Inventory(id);
    let missing: FileRecord | undefined;
    for await (const { said, files } of readNamedSlices(engine, manifest, { signal })) {
      inventory.add(said, files);
      missing ??= files.find((file) => sizes.get(file.key) !== file.sizeBytes);
    }
    const size = missing && sizes.get(missing.key);
    const what = size === undefined ? 'is missing' : `has ${size} bytes, not ${missing?.sizeBytes}`;
    const problem = missing && `${missing.key} ${what}`;
    return { key, id, sha256: digest, createdAtMs, manifest, inventory, problem };
  } catch (error) {
    const codes = ['Corrupt', 'NotFound', 'UnsupportedFormat'] as const;
    if (isCheckpointError(error) && codes.some((code) => code === error.code))
      return { key, id, reason: error.message };
    throw error;
  }
}
