/**
 * Deletes what nothing refers to and nothing ever will. The order makes it safe: list everything,
 * then read the catalog, then read what its checkpoints refer to, and only then delete.
 * plan/sweep.ts explains why.
 *
 * A sweep keeps no state. If it is stopped, the next one finds what is left.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { WaitOptions } from '../../contract/checkpoint-manager.ts';
import {
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  toCheckpointError,
  unlessAborted,
} from '../../contract/errors.ts';
import type { StoreFact } from '../../contract/object-store.ts';
import type { SweepResult } from '../../contract/retention.ts';
import { decodeRecord, parseLeaseKey } from '../../format/index.ts';
import { allCheckpoints } from '../../plan/state.ts';
import { isLongOver, type ListedObject, mayBeLongOver, planSweep, type SweepPlan } from '../../plan/sweep.ts';
import type { Head } from '../catalog/index.ts';
import { objectTimeMs } from '../read/index.ts';
import { getOrNull, isUnreadable, withDeadline } from '../records/index.ts';
import {
  assertOwnEntries,
  listRun,
  lostCatalog,
  type RunContext,
  SWEPT_PREFIXES,
  type WholeListing,
} from '../run/index.ts';
import { findGarbagePages } from './garbage-pages.ts';
import { readHeldKeys } from './held-keys.ts';
import { PacedDeletion } from './paced-deletion.ts';
import { findStrayUploads, type StrayUpload, stopUpload } from './stray-uploads.ts';

/**
 * Cost: one list page per 1,000 objects. One GET for each checkpoint that this manager has not read
 * before, and one for each record that it refers to. One delete request per
 * `capabilities.maxDeleteKeys` objects. Memory: about 200 bytes per object of the run, and 150 per
 * object of its checkpoints.
 *
 * All of these errors mean that nothing was deleted:
 *
 * - `NotFound`: there is no run.
 * - `StoreRegressed`: the catalog is gone, or older than the objects beside it.
 * - `Corrupt`: a manifest cannot be read.
 * - `Denied`: the store allows no deletion.
 */
export async function sweep(run: RunContext, options: WaitOptions): Promise<SweepResult> {
  const { signal } = options;
  const listing = await listRun(run, SWEPT_PREFIXES, signal);
  const { head, plan } = await planOn(run, listing, signal);
  const pages = await findGarbagePages(run, listing.pages, head, signal);
  const { strays, unreadable } = await findStrayUploads(run, listing, head.state, signal);

  const deletion = new PacedDeletion(run, signal);
  const { payloads, fileLists, receipts, manifests, claims } = plan;
  for (const objects of [payloads, fileLists, receipts, manifests, claims, pages])
    await deletion.delete(objects);
  deletion.assertAllowed();
  const uploads = await stopUploads(run, strays, deletion, signal);
  const leaseCount = await deletion.delete(await findOldLeases(run, listing, signal));
  for (const { key, reason } of unreadable) deletion.hold(key, new CheckpointError('Corrupt', reason));
  const { objectCount, freedBytes, held, heldCount } = deletion;
  const hasFreed = objectCount > 0 || heldCount > 0;
  const notes = hasFreed ? await billedNotes(run, signal) : [];
  return { objectCount, freedBytes, ...uploads, leaseCount, held, heldCount, notes };
}

/**
 * Another process may remove a checkpoint while its manifest is read. A newer state then shows it.
 */
async function planOn(
  run: RunContext,
  listing: WholeListing,
  signal: AbortSignal | undefined,
): Promise<{ head: Head; plan: SweepPlan }> {
  let head = await readHeadBeside(run, listing, signal);
  await assertOwnEntries(run, head, signal);
  for (;;) {
    const asked = await run.catalog.ask(({ state }) => allCheckpoints(state), signal, head);
    head = asked.head;
    try {
      const held = await readHeldKeys(run, asked.answer, signal);
      return { head, plan: planSweep(listing, head.state, held) };
    } catch (error) {
      if (!isCheckpointError(error, 'Corrupt')) throw error;
      const newer = await run.catalog.read(signal);
      if (newer.seq === head.seq) throw stopped(error);
      head = newer;
    }
  }
}

function stopped(error: CheckpointError): CheckpointError {
  const message = `nothing is deleted, because it is not known what must stay: ${error.message}`;
  const version = String(error.context['checkpoint'] ?? error.context['version']);
  const advice =
    error.context['quarantined'] === true
      ? [`version ${version} is quarantined, but its receipts cannot be read either: restore its records`]
      : [
          `\`verify\` of version ${version} with \`quarantine\` quarantines it; collection continues if its receipts can be read`,
        ];
  const context = { ...error.context, stopped: 'collection', advice };
  return new CheckpointError('Corrupt', message, { context, cause: error });
}

/**
 * `NotFound`: the run has no objects. `StoreRegressed`: there are objects, but no catalog to
 * explain them.
 */
async function readHeadBeside(
  run: RunContext,
  listing: WholeListing,
  signal: AbortSignal | undefined,
): Promise<Head> {
  const head = await run.catalog.read(signal);
  if (head.seq > 0) return head;
  const [first] = [...listing.objects, ...listing.claims, ...listing.leases];
  if (!first) {
    throw new CheckpointError('NotFound', `there is no run at ${run.store.uri}`, {
      context: { store: run.store.uri },
    });
  }
  throw lostCatalog(run, first.key, 'nothing is deleted');
}

/**
 * The clock of the listing chooses candidates, and the clock that stamped them decides. Asking that
 * clock takes room: on a full store old leases stay for a later sweep.
 */
async function findOldLeases(
  run: RunContext,
  { leases, storeTimeMs }: WholeListing,
  signal: AbortSignal | undefined,
): Promise<ListedObject[]> {
  const old = leases.filter(({ createdAtMs }) => mayBeLongOver(storeTimeMs - createdAtMs));
  const [first] = old.flatMap(({ key }) => parseLeaseKey(key) ?? []);
  if (first === undefined) return [];
  const nowMs = await objectTimeMs(run, first.id, signal).catch((error: unknown) => {
    if (isCheckpointError(error, 'StorageFull')) return Number.NEGATIVE_INFINITY;
    throw error;
  });
  const { preferredConcurrency } = run.store.capabilities;
  const read = await atATime(old, preferredConcurrency, async (lease) => {
    const ttlMs = await readTtlMs(run, lease.key, signal);
    return ttlMs !== null && isLongOver({ ttlMs }, nowMs - lease.createdAtMs) ? lease : null;
  });
  return read.filter((lease) => lease !== null);
}

/** `null`: the lease is gone, or cannot be read. An unreadable lease is kept. */
async function readTtlMs(
  run: RunContext,
  key: string,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  try {
    const bytes = await getOrNull(run.records, key, signal);
    return bytes && decodeRecord('read-lease', bytes, { key, store: run.store.uri }).ttlMs;
  } catch (error) {
    if (isUnreadable(error)) return null;
    throw error;
  }
}

/**
 * Deletes each record after its upload: a process that reads the record in between finds that the
 * upload has ended.
 */
async function stopUploads(
  run: RunContext,
  strays: readonly StrayUpload[],
  deletion: PacedDeletion,
  signal: AbortSignal | undefined,
): Promise<{ uploadCount: number; uploadBytes: number }> {
  const { preferredConcurrency } = run.store.capabilities;
  let uploadCount = 0;
  let uploadBytes = 0;
  const records: ListedObject[] = [];
  await atATime(strays, preferredConcurrency, async (stray) => {
    try {
      const sizeBytes = await stopUpload(run, stray, signal);
      if (sizeBytes !== null) uploadCount++;
      uploadBytes += sizeBytes ?? 0;
      if (stray.recordKey !== undefined) records.push({ key: stray.recordKey, sizeBytes: 0 });
    } catch (error) {
      throwIfAborted(signal);
      if (!isCheckpointError(error) || error.status !== 'permanent') throw error;
      deletion.hold(stray.recordKey ?? stray.key, error);
    }
  });
  await deletion.delete(records);
  return { uploadCount, uploadBytes };
}

/** Settings of a bucket under which deleted objects are kept or still cost money. */
const BILLED_FACTS = [
  'versioning',
  'soft-delete',
  'object-lock',
  'retention-policy',
  'default-hold',
  'immutability',
];

/** One sentence for each setting. A store that cannot be inspected is no error. */
async function billedNotes(run: RunContext, signal: AbortSignal | undefined): Promise<string[]> {
  const { store, clock, settings, logger } = run;
  const what = 'the look at the settings of the store';
  const bounds = { clock, timeoutMs: settings.stallTimeoutMs, what, signal };
  try {
    const facts = await withDeadline(bounds, (until) =>
      unlessAborted(store.inspect?.({ signal: until }) ?? Promise.resolve([]), until),
    );
    return facts.filter(({ id }) => BILLED_FACTS.includes(id)).flatMap(noteOf);
  } catch (error) {
    logger.log('debug', `the store was not inspected: ${toCheckpointError(error).message}`);
    return [];
  }
}

function noteOf({ title, seen, concern }: StoreFact): string[] {
  return concern ? [`${title} (${seen}): ${concern.meaning}`] : [];
}
