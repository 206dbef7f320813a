/** Lists the objects of a run, except its catalog. */

import {
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  toCheckpointError,
  unlessAborted,
} from '../../contract/errors.ts';
import type { ObjectInfo, OpenUpload } from '../../contract/object-store.ts';
import { watchRequests } from '../../contract/request-watch.ts';
import {
  leasesPrefix,
  pagesPrefix,
  uploadsPrefix,
  versionsPrefix,
  writersPrefix,
} from '../../format/index.ts';
import type { ListedObject, RunListing } from '../../plan/sweep.ts';
import { retrying } from '../../transfer/index.ts';
import { type RunParts, withDeadline } from '../records/index.ts';

export interface WholeListing extends RunListing {
  /** Keys below `uploads/`. */
  readonly uploadRecords: readonly string[];
  /** Uploads of payloads, if the store can list them. */
  readonly openUploads: readonly OpenUpload[];
  /** Below `pages/`. */
  readonly pages: readonly ListedObject[];
  /** Below none of the prefixes; filled only when everything is listed. */
  readonly others: readonly ListedObject[];
  /** By the store's clock, at the first page. */
  readonly storeTimeMs: number;
}

/** The prefixes that a sweep lists. It deletes no catalog entries and no grants of elections. */
export const SWEPT_PREFIXES: readonly string[] = [
  versionsPrefix,
  writersPrefix,
  uploadsPrefix,
  leasesPrefix,
  pagesPrefix,
];
/** All keys of the run. */
export const EVERYTHING: readonly string[] = [''];

/** One list page per 1,000 objects. Holds about 200 bytes for each of them. */
export async function listRun(
  run: RunParts,
  prefixes: readonly string[],
  signal: AbortSignal | undefined,
): Promise<WholeListing> {
  const listing = {
    objects: [] as ListedObject[],
    claims: [] as ListedObject[],
    leases: [] as (ListedObject & { createdAtMs: number })[],
    uploadRecords: [] as string[],
    pages: [] as ListedObject[],
    others: [] as ListedObject[],
    storeTimeMs: 0,
  };
  const add = ({ key, sizeBytes, createdAtMs }: ObjectInfo) => {
    if (key.startsWith(versionsPrefix)) listing.objects.push({ key, sizeBytes });
    else if (key.startsWith(writersPrefix)) listing.claims.push({ key, sizeBytes });
    else if (key.startsWith(leasesPrefix)) listing.leases.push({ key, sizeBytes, createdAtMs });
    else if (key.startsWith(uploadsPrefix)) listing.uploadRecords.push(key);
    else if (key.startsWith(pagesPrefix)) listing.pages.push({ key, sizeBytes });
    else listing.others.push({ key, sizeBytes });
  };
  for (const prefix of prefixes) {
    for await (const page of run.records.list(prefix, { signal })) {
      listing.storeTimeMs ||= page.storeTimeMs;
      for (const object of page.objects) add(object);
    }
  }
  return { ...listing, openUploads: await listOpenUploads(run, signal) };
}

/**
 * If the store does not let us list its uploads, only uploads with a record are known. Nearly all
 * uploads have one.
 */
async function listOpenUploads(run: RunParts, signal: AbortSignal | undefined): Promise<OpenUpload[]> {
  const { store, logger, clock, settings } = run;
  if (!store.listUploads) return [];
  const what = 'the list of uploads';
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
  const listAll = async (until: AbortSignal, renewAll: () => void) => {
    const uploads: OpenUpload[] = [];
    const stop = new AbortController();
    let renewNext: () => void = () => undefined;
    // Many pages may show no upload: where uploads are listed among objects, as on Azure. Each
    // request is an answer too.
    const changed = () => {
      renewNext();
      renewAll();
    };
    watchRequests(stop.signal, { changed });
    const { stallTimeoutMs } = settings;
    const iterator = store.listUploads?.(versionsPrefix, { signal: stop.signal })[Symbol.asyncIterator]();
    if (!iterator) return uploads;
    // Each upload in the list has its own deadline. A long list may take its time. If the store is
    // silent, the listing is begun again.
    const next = { clock, timeoutMs: stallTimeoutMs, what, signal: until };
    for (;;) {
      const { done, value } = await withDeadline(next, (due, renew) => {
        renewNext = renew;
        const silent = new CheckpointError(
          'Unavailable',
          `${what}: no answer for ${stallTimeoutMs / 1000} s`,
        );
        const end = () => stop.abort(until.aborted ? due.reason : silent);
        due.addEventListener('abort', end, { once: true });
        return unlessAborted(iterator.next(), due);
      });
      if (done) return uploads;
      uploads.push(value);
    }
  };
  try {
    return await withDeadline(bounds, (until, renew) =>
      retrying(() => listAll(until, renew), run.transfers.retryPolicy(what, { signal: until })),
    );
  } catch (error) {
    throwIfAborted(signal);
    if (!isCheckpointError(error) || error.status !== 'permanent') throw error;
    logger.log('info', `uploads without a record cannot be listed: ${toCheckpointError(error).message}`);
    return [];
  }
}
