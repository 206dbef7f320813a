/** What lies in a run, beside its catalog. */

import { isCheckpointError, throwIfAborted, toCheckpointError } from '../contract/errors.ts';
import type { ObjectInfo, OpenUpload } from '../contract/object-store.ts';
import { leasesPrefix, uploadsPrefix, versionsPrefix, writersPrefix } from '../format/index.ts';
import type { ListedObject, RunListing } from '../plan/sweep.ts';
import { retrying } from '../transfer/index.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';

export interface WholeListing extends RunListing {
  /** Keys below `uploads/`. */
  readonly uploadRecords: readonly string[];
  /** Of payloads, as far as the store can tell. */
  readonly openUploads: readonly OpenUpload[];
  /** Below none of the prefixes; only when everything is listed. */
  readonly others: readonly ListedObject[];
  /** The store's own clock, at the first page. */
  readonly storeTimeMs: number;
}

/** What a sweep looks at. The catalog and elections are none of its business. */
export const SWEPT_PREFIXES: readonly string[] = [versionsPrefix, writersPrefix, uploadsPrefix, leasesPrefix];
/** All keys of the run. */
export const EVERYTHING: readonly string[] = [''];

/** One list page per 1,000 objects. Holds about 200 bytes for each of them. */
export async function listRun(
  engine: Engine,
  prefixes: readonly string[],
  signal: AbortSignal | undefined,
): Promise<WholeListing> {
  const listing = {
    objects: [] as ListedObject[],
    claims: [] as ListedObject[],
    leases: [] as (ListedObject & { createdAtMs: number })[],
    uploadRecords: [] as string[],
    others: [] as ListedObject[],
    storeTimeMs: 0,
  };
  const add = ({ key, sizeBytes, createdAtMs }: ObjectInfo) => {
    if (key.startsWith(versionsPrefix)) listing.objects.push({ key, sizeBytes });
    else if (key.startsWith(writersPrefix)) listing.claims.push({ key, sizeBytes });
    else if (key.startsWith(leasesPrefix)) listing.leases.push({ key, sizeBytes, createdAtMs });
    else if (key.startsWith(uploadsPrefix)) listing.uploadRecords.push(key);
    else listing.others.push({ key, sizeBytes });
  };
  for (const prefix of prefixes) {
    for await (const page of engine.records.list(prefix, { signal })) {
      listing.storeTimeMs ||= page.storeTimeMs;
      for (const object of page.objects) add(object);
    }
  }
  return { ...listing, openUploads: await listOpenUploads(engine, signal) };
}

/** A store that does not let us see its uploads has those of which there are records: that is nearly all. */
async function listOpenUploads(engine: Engine, signal: AbortSignal | undefined): Promise<OpenUpload[]> {
  const { store, logger, clock, settings } = engine;
  if (!store.listUploads) return [];
  const what = 'the list of uploads';
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
  const listAll = async (until: AbortSignal) => {
    const uploads: OpenUpload[] = [];
    for await (const upload of store.listUploads?.(versionsPrefix, { signal: until }) ?? [])
      uploads.push(upload);
    return uploads;
  };
  try {
    return await withDeadline(bounds, (until) =>
      retrying(() => listAll(until), engine.transfer.retryPolicy(what, { signal: until })),
    );
  } catch (error) {
    throwIfAborted(signal);
    if (!isCheckpointError(error) || error.status !== 'permanent') throw error;
    logger.log('info', `uploads without a record are not seen: ${toCheckpointError(error).message}`);
    return [];
  }
}
