/**
 * Leases that a caller takes, lists and releases itself, for readers that do not read through
 * Holdfast.
 */

import { atATime } from '../../contract/at-a-time.ts';
import type { CheckpointReference, WaitOptions } from '../../contract/checkpoint-manager.ts';
import { shown } from '../../contract/checks.ts';
import { CheckpointError, isCheckpointError, isStopOf, throwIfAborted } from '../../contract/errors.ts';
import type { Lease, LeaseOptions } from '../../contract/history.ts';
import type { ObjectInfo } from '../../contract/object-store.ts';
import {
  type CheckpointId,
  decodeRecord,
  leasesPrefix,
  parseLeaseKey,
  type ReadLease,
  toReference,
} from '../../format/index.ts';
import { chooseCheckpoint, requireLive } from '../../plan/select.ts';
import { findById } from '../../plan/state.ts';
import { DoubtfulNames, type Head } from '../catalog/index.ts';
import { deleteForTidiness, getOrNull, isUnreadable, unknownRecord, withLastLook } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';
import { leaseBytes, newLeaseKey, writeLease } from './lease.ts';
import { wantedReference } from './restore.ts';

const READER_DEFAULT = 'reader';
/** Reader of the lease that `objectTimeMs` writes. */
const TIMEKEEPER = 'timekeeper';
/** Enough for a lease that is deleted at once. */
const TIMEKEEPER_TTL_MS = 1000;
const READ_AT_ONCE = 16;
const KEY_END = '.json';

export async function takeLease(run: RunContext, options: LeaseOptions): Promise<Lease> {
  const { ttlMs, reader = READER_DEFAULT, signal } = options;
  const wanted = wantedReference(options.version);
  const choose = ({ state }: Head) => requireLive(chooseCheckpoint(state, wanted)).id;
  const { answer: id } = await run.catalog.ask(choose, signal);
  const key = newLeaseKey(run, id, reader);
  const bytes = leaseBytes(run, { id, reader, ttlMs });
  const decides = unknownRecord(run, { what: `lease ${leaseId(key)}`, key, bytes });
  await writeLease(run, { key, bytes }, signal, decides);
  try {
    const look = (until: AbortSignal) => createdAt(run, { key, id }, until);
    const createdAtMs = await withLastLook(run.clock, signal, look);
    const { host, pid } = run.process;
    return {
      ...{ id: leaseId(key), key, checkpoint: id, version: id.version, reader, host, pid },
      ...{ createdAtMs, ageMs: 0, expiresAtMs: createdAtMs + ttlMs, isExpired: false },
    };
  } catch (error) {
    // Otherwise the lease exists and is not released.
    throw isCheckpointError(error, 'NotFound') ? error : decides(error);
  }
}

/**
 * When the lease was created, by the store's clock. Reads the catalog after the lease was written.
 * Collection lists leases after it has retired a checkpoint. So if the checkpoint is live now, any
 * later retirement sees this lease. `NotFound`: the checkpoint is not live, and the lease is
 * released.
 */
async function createdAt(
  run: RunContext,
  { key, id }: { readonly key: string; readonly id: CheckpointId },
  signal: AbortSignal,
): Promise<number> {
  const { answer: found } = await run.catalog.ask(({ state }) => findById(state, id), signal);
  if (found?.state === 'LIVE') return (await run.records.head(key, { signal })).createdAtMs;
  await deleteForTidiness(run, [key], 'releasing a read lease', { signal });
  if (found) requireLive(found);
  throw new CheckpointError('NotFound', `version ${id.version} was removed meanwhile`, {
    context: { version: id.version },
  });
}

export async function releaseLease(run: RunContext, id: string, { signal }: WaitOptions): Promise<boolean> {
  const key = `${leasesPrefix}${typeof id === 'string' ? id : ''}${KEY_END}`;
  if (parseLeaseKey(key) === null) {
    throw new CheckpointError(
      'InvalidArgument',
      `${shown(id)} is not a lease id, such as 1200.1.3/reader-0123456789abcdef`,
    );
  }
  try {
    await run.records.head(key, { signal });
  } catch (error) {
    if (isCheckpointError(error, 'NotFound')) return false;
    throw error;
  }
  throwIfAborted(signal);
  try {
    const [result] = await run.records.deleteMany([key], { signal });
    if (result?.error) throw result.error;
    return true;
  } catch (error) {
    if (!isStopOf(error, signal)) throw error;
    const message = `it is not known whether lease ${id} was released`;
    const advice = ['release it again, or list the leases: a lease that is not listed is released'];
    throw new CheckpointError('OutcomeUnknown', message, { context: { key, advice }, cause: error });
  }
}

export async function callersLeases(
  run: RunContext,
  { version: given, signal }: WaitOptions & { version?: CheckpointReference | undefined },
): Promise<Lease[]> {
  if (given === undefined) return listLeases(run, leasesPrefix, signal);
  const { version, lineage } = toReference(given);
  const ofLineage = lineage === undefined ? '' : `${lineage}.`;
  return listLeases(run, `${leasesPrefix}${version}.${ofLineage}`, signal);
}

/**
 * Leases whose keys begin with `prefix`, in the order of their keys. Their age is by the store's
 * clock at the first list page. A lease that is released meanwhile is left out.
 *
 * Cost: that of `DoubtfulNames`, and one GET for each lease on a checkpoint for which `isWanted`
 * holds.
 */
export async function listLeases(
  run: RunContext,
  prefix: string,
  signal: AbortSignal | undefined,
  isWanted: (id: CheckpointId) => boolean = () => true,
): Promise<Lease[]> {
  // A reader whose lease is missed may lose what it reads.
  const { found, storeTimeMs } = await new DoubtfulNames(run, prefix, parseLeaseKey).list({ signal });
  const objects = found.flatMap(({ object, parsed }) => (isWanted(parsed.id) ? [object] : []));
  const leases = await atATime(objects, READ_AT_ONCE, (object) =>
    readLease(run, object, storeTimeMs, signal),
  );
  return leases.filter((lease) => lease !== null);
}

/**
 * The time by the clock that stamps new objects: that of a lease on `id`, written for this purpose
 * and deleted again. It says how old another object is. The time of a listing does not always: over
 * HTTP it is the `Date` of the answer, which any proxy in between may set by its own clock.
 */
export async function objectTimeMs(
  run: RunContext,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<number> {
  const key = newLeaseKey(run, id, TIMEKEEPER);
  const bytes = leaseBytes(run, { id, reader: TIMEKEEPER, ttlMs: TIMEKEEPER_TTL_MS });
  await writeLease(run, { key, bytes }, signal);
  try {
    return (await run.records.head(key, { signal })).createdAtMs;
  } finally {
    await deleteForTidiness(run, [key], 'deleting the lease that told the time', { signal });
  }
}

async function readLease(
  run: RunContext,
  { key, createdAtMs }: ObjectInfo,
  storeTimeMs: number,
  signal: AbortSignal | undefined,
): Promise<Lease | null> {
  const parsed = parseLeaseKey(key);
  if (parsed === null) return null;
  const record = await recordOf(run, key, signal);
  if (record === null) return null;
  const ageMs = storeTimeMs - createdAtMs;
  const expiresAtMs = record === 'damaged' ? null : createdAtMs + record.ttlMs;
  const { host, pid } = record === 'damaged' ? { host: '', pid: 0 } : record;
  const { id, reader } = parsed;
  return {
    ...{ id: leaseId(key), key, checkpoint: id, version: id.version, reader, host, pid },
    ...{ createdAtMs, ageMs, expiresAtMs, isExpired: expiresAtMs !== null && expiresAtMs <= storeTimeMs },
  };
}

async function recordOf(
  run: RunContext,
  key: string,
  signal: AbortSignal | undefined,
): Promise<ReadLease | 'damaged' | null> {
  try {
    const bytes = await getOrNull(run.records, key, signal);
    return bytes && decodeRecord('read-lease', bytes, { key, store: run.store.uri });
  } catch (error) {
    if (isUnreadable(error)) return 'damaged';
    throw error;
  }
}

/** The key without the parts that all lease keys have in common. */
function leaseId(key: string): string {
  return key.slice(leasesPrefix.length, -KEY_END.length);
}
