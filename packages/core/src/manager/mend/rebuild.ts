/**
 * Writes a new catalog when the catalog is gone. plan/rebuild.ts decides which manifests go into
 * it.
 *
 * Its first entry takes the store's time in milliseconds as its number. That is far above any
 * former number, so a late request of an old writer can never become the highest entry. But two
 * rebuilds would pick different numbers, and a writer may begin or continue a catalog meanwhile.
 * The order of the steps makes sure that exactly one of them wins:
 *
 * 1. Create the bytes of the entry as entry 1: the mark. Only one rebuild can do that. Every other
 *    client stops when it reads the mark. A rebuild that finds a mark continues that rebuild.
 * 2. List the catalog again. Any entry other than the mark and entries of the rebuilt run is a
 *    `Conflict`.
 * 3. Create the entry under its own number, and list the catalog. The entry must be the highest, or
 *    the highest must belong to the rebuilt run, which has continued.
 * 4. Then delete the mark. Before step 3 nothing else can become entry 1. After step 3 entry 1
 *    decides nothing.
 *
 * An entry created by others between steps 2 and 3 follows an entry that is gone. No client builds
 * on it or trusts it (see catalog.ts).
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { WaitOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { TIME_MS_MAX } from '../../contract/ranges.ts';
import type { LeftOutManifest, RebuildOptions, RebuildResult } from '../../contract/upkeep.ts';
import {
  type CatalogEntry,
  catalogKey,
  decodeRecord,
  encodeRecord,
  parseCheckpointPrefix,
  parseClaimKey,
  parseLeaseKey,
  type Run,
  runKey,
} from '../../format/index.ts';
import { closePages } from '../../plan/pages.ts';
import { FIRST_SEQ, isRebuildMark, REBUILD_KIND, rebuiltState } from '../../plan/rebuild.ts';
import { allCheckpoints } from '../../plan/state.ts';
import { timeText } from '../../plan/time-text.ts';
import {
  createRecord,
  deleteForTidiness,
  endOf,
  getOrNull,
  isUnanswered,
  isUnreadable,
  machineTimeMs,
  newId,
  summaryOf,
  unknownRecord,
  withDeadline,
  withLastLook,
} from '../records/index.ts';
import {
  decide,
  decodeRunRecord,
  EVERYTHING,
  listRun,
  type RunContext,
  type WholeListing,
} from '../run/index.ts';
import { type FoundCheckpoints, findCheckpoints } from './found-manifests.ts';

export async function rebuildCatalog(run: RunContext, options: RebuildOptions): Promise<RebuildResult> {
  const { signal } = options;
  const begun = await readBegun(run, signal);
  const former = await readFormer(run, signal);
  const formerRunId = former?.runId ?? null;
  if (begun) {
    const { answer: checkpoints } = await run.catalog.ask(
      ({ state }) => allCheckpoints(state),
      signal,
      begun,
    );
    return write(run, { entry: begun, formerRunId, checkpoints, skipped: heldBy(begun) }, signal);
  }
  const listing = await listRun(run, EVERYTHING, signal);
  const found = await findCheckpoints(run, listing, options).catch(async (error: unknown) => {
    // Another rebuild may have finished, and a collection may already use its catalog.
    await readBegun(run, signal);
    throw error;
  });
  const entry = await firstEntry(run, { listing, found, former }, signal);
  return write(run, { entry, formerRunId, ...found }, signal);
}

/** Undoes the hold on a manifest that a rebuild skipped. */
export async function releaseSkipped(
  run: RunContext,
  manifestKey: string,
  { signal }: WaitOptions,
): Promise<void> {
  await decide(
    run,
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

/**
 * The entry of an interrupted rebuild; `null`: there is no catalog. `Conflict`: there is a catalog.
 */
async function readBegun(run: RunContext, signal: AbortSignal | undefined): Promise<CatalogEntry | null> {
  const seqs = await run.catalog.listSeqs(signal);
  const highest = seqs.at(-1);
  if (highest === undefined) return null;
  const key = catalogKey(highest);
  const bytes = highest === FIRST_SEQ ? await getOrNull(run.records, key, signal) : null;
  const entry = bytes && decodeRecord('catalog-entry', bytes, { key, store: run.store.uri });
  if (entry && isRebuildMark(entry, highest)) return entry;
  throw conflict(run, `there is a catalog, and its newest entry is ${highest}`);
}

/**
 * The `run.json` of the run before. That record stays, but from now on only the catalog decides the
 * id and the rules.
 */
async function readFormer(run: RunContext, signal: AbortSignal | undefined): Promise<Run | null> {
  const bytes = await getOrNull(run.records, runKey, signal);
  return bytes && decodeRunRecord(run, bytes);
}

/**
 * Makes the pages durable before the mark, and the mark before the entry. A process that continues
 * from the mark then finds the pages.
 */
async function firstEntry(
  run: RunContext,
  from: { listing: WholeListing; found: FoundCheckpoints; former: Run | null },
  signal: AbortSignal | undefined,
): Promise<CatalogEntry> {
  const entry = planEntry(run, from);
  const { entryCheckpointsMax } = run.settings;
  const { runId, seq } = entry;
  const { state, pages } = closePages(entry.state, [], { entryCheckpointsMax, runId, seq });
  const { preferredConcurrency } = run.store.capabilities;
  await atATime(pages, preferredConcurrency, ({ key, bytes }) => createRecord(run, key, bytes, signal));
  return { ...entry, state };
}

/** A rebuilt catalog is numbered by the store's clock, so that it comes after the lost one. */
function seqByClock(run: RunContext, storeTimeMs: number): number {
  if (storeTimeMs >= 1 && storeTimeMs <= TIME_MS_MAX) return Math.round(storeTimeMs);
  throw new CheckpointError(
    'InvalidConfig',
    `the store's clock says ${timeText(storeTimeMs)}, and a rebuilt catalog is numbered by it; nothing was changed`,
    { context: { store: run.store.uri } },
  );
}

function planEntry(
  run: RunContext,
  {
    listing,
    found: { checkpoints, skipped },
    former,
  }: { listing: WholeListing; found: FoundCheckpoints; former: Run | null },
): CatalogEntry {
  const { lineage, epoch: highest } = highestOf(listing);
  const epoch = highest + 1;
  const txnId = newId(run);
  const attempt = `drawn-${newId(run)}`;
  const held = skipped.filter(({ isHeld }) => isHeld).map(({ key }) => key);
  const reasons = [
    `the catalog was gone; rebuilt from ${checkpoints.length} manifests`,
    ...(former === null ? [] : [`before, this was run ${former.runId}`]),
    ...held.map((key) => `skipped as asked, and held from every sweep: ${key}`),
  ];
  return {
    format: undefined,
    runId: newId(run),
    seq: seqByClock(run, listing.storeTimeMs),
    entryId: newId(run),
    parentId: '',
    transaction: {
      id: txnId,
      kind: REBUILD_KIND,
      lineage,
      epoch,
      checkpoint: undefined,
      checkpoints: [],
      reason: reasons.join('; '),
      host: run.process.host,
      pid: run.process.pid,
      atMs: machineTimeMs(run),
      attempt,
    },
    state: rebuiltState(checkpoints, {
      ...{ lineage, epoch, attempt, txnId, skippedManifests: held },
      policy: former?.policy,
    }),
  };
}

function heldBy({ state }: CatalogEntry): LeftOutManifest[] {
  const reason = 'it was skipped, as asked, when this rebuild began';
  return state.skippedManifests.map((key) => ({ key, reason, isHeld: true }));
}

/** The entry to write, and the rest of the result for the caller. */
interface Planned extends FoundCheckpoints {
  readonly entry: CatalogEntry;
  readonly formerRunId: string | null;
}

async function write(
  run: RunContext,
  { entry, formerRunId, checkpoints, skipped }: Planned,
  signal: AbortSignal | undefined,
): Promise<RebuildResult> {
  const { clock, settings } = run;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'rebuilding the catalog', signal };
  await withDeadline(bounds, (until) => writeEntry(run, entry, until));
  run.catalog.remember(entry);
  await deleteMark(run);
  const summaries = checkpoints
    .map((each) => summaryOf(entry.state, each, run.catalog.storeTimeMs))
    .reverse();
  return { runId: entry.runId, formerRunId, checkpoints: summaries, skipped };
}

/** The steps in the header. Each may be repeated, by this process or another. */
async function writeEntry(run: RunContext, entry: CatalogEntry, signal: AbortSignal): Promise<void> {
  const { bytes } = encodeRecord('catalog-entry', entry);
  const key = catalogKey(entry.seq);
  // Once the mark is there, another process may continue this rebuild. An error of this process
  // therefore does not end it.
  const decides = unknownRecord(run, { what: 'the new catalog', key, bytes });
  const mark = await createRecord(run, catalogKey(FIRST_SEQ), bytes, signal, decides);
  if (!mark.isOurs) throw conflict(run, 'another rebuild or a new writer came first');
  try {
    await ensureRun(run, entry.runId, signal);
    if (await isRebuilt(run, entry, signal)) return;
    const created = await createRecord(run, key, bytes, signal);
    if (!created.isOurs) throw conflict(run, `entry ${entry.seq} is a different one`);
    const look = (until: AbortSignal) => isRebuilt(run, entry, until);
    if (await withLastLook(run.clock, signal, look)) return;
  } catch (error) {
    throw isUnanswered(error) || isCheckpointError(error, 'Aborted') || signal.aborted
      ? decides(endOf(error))
      : error;
  }
  const message = `${key} was created, but the store does not show it`;
  throw new CheckpointError('StoreRegressed', message, { context: { store: run.store.uri, key } });
}

/**
 * Whether the newest entry belongs to the run that the rebuild begins; `false`: only the mark is
 * there. `Conflict`: the newest entry is of another run.
 */
async function isRebuilt(run: RunContext, { runId }: CatalogEntry, signal: AbortSignal): Promise<boolean> {
  const newest = (await run.catalog.listSeqs(signal)).at(-1) ?? FIRST_SEQ;
  if (newest === FIRST_SEQ) return false;
  if ((await runIdOf(run, newest, signal)) === runId) return true;
  await deleteMark(run); // the newest entry is above the mark, so entry 1 decides nothing
  throw conflict(run, `entry ${newest} was written meanwhile`);
}

/** `undefined`: the entry cannot be read, or it is gone because newer ones were written. */
async function runIdOf(run: RunContext, seq: number, signal: AbortSignal): Promise<string | undefined> {
  const key = catalogKey(seq);
  try {
    const bytes = await getOrNull(run.records, key, signal);
    return bytes ? decodeRecord('catalog-entry', bytes, { key, store: run.store.uri }).runId : undefined;
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

function deleteMark(run: RunContext): Promise<void> {
  return deleteForTidiness(run, [catalogKey(FIRST_SEQ)], 'deleting the mark of a rebuild');
}

function conflict({ store }: RunContext, what: string): CheckpointError {
  const advice = ['check the existing catalog (`holdfast log`, `holdfast fsck`) before you try again'];
  return new CheckpointError('Conflict', `the catalog of ${store.uri} is not rebuilt: ${what}`, {
    context: { store: store.uri, advice },
  });
}

/** An existing `run.json` stays, with the former id of the run. */
async function ensureRun(run: RunContext, runId: string, signal: AbortSignal): Promise<void> {
  if (await getOrNull(run.records, runKey, signal)) return;
  const createdAtMs = machineTimeMs(run);
  const { bytes } = encodeRecord('run', { format: undefined, runId, policy: undefined, createdAtMs });
  await createRecord(run, runKey, bytes, signal);
}

/** The highest lineage, and the highest epoch, in all keys that contain them. */
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
