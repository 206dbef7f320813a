/** The store for records. Requests are retried if they may be repeated, one request at a time. */

import {
  type CallOptions,
  CheckpointError,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  isCheckpointError,
  isStopOf,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  requestWatchOf,
  type StoredObject,
  throwIfAborted,
  watchRequests,
} from '../contract/index.ts';
import { checksumProblem } from '../format/record-checksum.ts';
import { changedOnTheWay, isChangedOnTheWay } from './changed-on-the-way.ts';
import { retrying } from './retry.ts';
import { retryPolicy, type Shared, stallTimeoutMs } from './shared.ts';
import { withStallTimeout } from './stall.ts';

/** See `Transfers.records`. */
export function retryingRecords(shared: Shared): ObjectStore {
  const { store } = shared;
  return {
    uri: store.uri,
    capabilities: store.capabilities,
    create: (key, bytes, options) => createOnce(shared, key, bytes, options),
    head: (key, options) => send(shared, `head ${key}`, options, (signal) => store.head(key, { signal })),
    get: (key, options) => getIntact(shared, key, options),
    // Not watched for silence, because the caller's buffer cannot be abandoned.
    readInto: (key, offsetBytes, buffer, options) =>
      retrying(
        () => store.readInto(key, offsetBytes, buffer, options),
        retryPolicy(shared, `read ${key}`, { signal: options?.signal }),
      ),
    beginUpload: (key, options) => store.beginUpload(key, options),
    resumeUpload: (token, options) => store.resumeUpload(token, options),
    list: (prefix, options) => listPages(shared, prefix, options ?? {}),
    deleteMany: (keys, options) =>
      deleteInBatches(keys, store.capabilities.maxDeleteKeys, (batch) =>
        send(shared, `delete of ${batch.length} keys`, options, (signal) =>
          store.deleteMany(batch, { signal }),
        ),
      ),
    close: () => store.close(),
  };
}

/** Limits the sends to a store that changes the bytes of every request. */
const SENDS_MAX = 3;

/**
 * Readings before a record counts as damaged. Bytes that the network or a disk has changed on the
 * way are right the next time.
 */
const READINGS_MAX = 3;

/**
 * The first reading whose checksum is right. If none is right, the last one: its reader then
 * reports the damage.
 */
async function getIntact(shared: Shared, key: string, options: GetOptions): Promise<StoredObject> {
  const { store, logger } = shared;
  for (let reading = 1; ; reading++) {
    try {
      const found = await send(shared, `get ${key}`, options, (signal) =>
        store.get(key, { ...options, signal }),
      );
      if (reading === READINGS_MAX || checksumProblem(found.bytes) === null) return found;
    } catch (error) {
      if (reading === READINGS_MAX || !isCheckpointError(error, 'Corrupt')) throw error;
    }
    logger.log('info', `${key} has a wrong checksum: it is read again`);
  }
}

/**
 * Sent once. Sent again only if the store rejected the bytes by their checksum, which has no
 * effect: they were changed on the way. The bytes belong to the caller, not to the pool, so a call
 * that never ends can be abandoned.
 *
 * Only this function distinguishes what a signal stopped:
 *
 * - `Aborted`, or the reason of the signal: it had fired before, and nothing was sent.
 * - `OutcomeUnknown`, with that error as its cause: it fired before the store answered.
 */
async function createOnce(
  shared: Shared,
  key: string,
  bytes: Uint8Array,
  options: CreateOptions | undefined,
): Promise<ObjectInfo> {
  const signal = options?.signal;
  throwIfAborted(signal);
  const send = (own: AbortSignal) => shared.store.create(key, bytes, { ...options, signal: own });
  for (let sent = 1; ; sent += 1) {
    try {
      return await watched(shared, `create ${key}`, options, send, 0);
    } catch (error) {
      if (isStopOf(error, signal)) throw stoppedOnItsWay(shared, key, error);
      if (options?.crc32c === undefined || !isChangedOnTheWay(error, bytes, options.crc32c)) throw error;
      if (sent === SENDS_MAX) throw changedOnTheWay(error, 'permanent');
      shared.logger.log('info', `create ${key}: ${error.code}: ${error.message}; sent again`);
      throwIfAborted(signal);
    }
  }
}

function stoppedOnItsWay({ store }: Shared, key: string, cause: unknown): CheckpointError {
  const unknown = `it is not known whether ${key} was created: the request was stopped in flight`;
  return new CheckpointError('OutcomeUnknown', unknown, { context: { store: store.uri, key }, cause });
}

/**
 * Collecting, verifying and checking hold data for every listed object: about 2 GB for this many. A
 * longer listing never ends, or is of a place that is not a run.
 */
export const LISTED_OBJECTS_MAX = 10_000_000;

/**
 * Page by page. A listing that breaks is begun again after the last key it has returned.
 * `Unsupported`: it has more than `LISTED_OBJECTS_MAX` objects.
 */
async function* listPages(
  shared: Shared,
  prefix: string,
  options: ListOptions,
): AsyncGenerator<ListPage, void, void> {
  const listing = new Listing(shared, prefix, options);
  let objectCount = 0;
  try {
    for (let page = await listing.next(); page; page = await listing.next()) {
      objectCount += page.objects.length;
      if (objectCount > LISTED_OBJECTS_MAX) throw tooManyListed(shared.store, prefix);
      yield page;
    }
  } finally {
    listing.close();
  }
}

function tooManyListed({ uri }: ObjectStore, prefix: string): CheckpointError {
  const where = prefix === '' ? uri : `${prefix} of ${uri}`;
  const message = `the store shows more than ${LISTED_OBJECTS_MAX} objects below ${where}, more than any run has`;
  const advice = [
    'check the URI: it must name a single run',
    'if it does, the listing of the store never ends',
  ];
  return new CheckpointError('Unsupported', message, { context: { store: uri, advice } });
}

class Listing {
  readonly #shared: Shared;
  readonly #prefix: string;
  readonly #options: ListOptions;
  #pages: AsyncIterator<ListPage> | undefined;
  #stop = new AbortController();
  #startAfter: string | undefined;

  constructor(shared: Shared, prefix: string, options: ListOptions) {
    this.#shared = shared;
    this.#prefix = prefix;
    this.#options = options;
    this.#startAfter = options.startAfter;
  }

  async next(): Promise<ListPage | undefined> {
    const page = await send(this.#shared, `list ${this.#prefix}`, this.#options, (signal) =>
      this.#nextPage(signal),
    );
    this.#startAfter = page?.objects.at(-1)?.key ?? this.#startAfter;
    return page;
  }

  /**
   * The reader has stopped, or a page failed. Does not wait for the listing, because a page may
   * hang.
   */
  close(): void {
    this.#stop.abort();
    // An error is ignored, because nothing more is read from the listing.
    Promise.resolve(this.#pages?.return?.()).catch(() => undefined);
    this.#pages = undefined;
  }

  async #nextPage(signal: AbortSignal): Promise<ListPage | undefined> {
    if (!this.#pages) {
      this.#stop = new AbortController();
      const startAfter = this.#startAfter === undefined ? {} : { startAfter: this.#startAfter };
      const pages = this.#shared.store.list(this.#prefix, { ...startAfter, signal: this.#stop.signal });
      this.#pages = pages[Symbol.asyncIterator]();
    }
    const listing = this.#stop;
    const watch = requestWatchOf(signal);
    if (watch) watchRequests(listing.signal, watch); // the watch is for this page only
    const stop = () => listing.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      const { done, value } = await this.#pages.next();
      return done ? undefined : value;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
}

async function deleteInBatches(
  keys: readonly string[],
  batchSize: number,
  deleteBatch: (keys: readonly string[]) => Promise<DeleteResult[]>,
): Promise<DeleteResult[]> {
  const results: DeleteResult[] = [];
  for (let start = 0; start < keys.length; start += batchSize) {
    results.push(...(await deleteBatch(keys.slice(start, start + batchSize))));
  }
  return results;
}

/** One request, watched for silence and repeated after temporary errors. */
function send<T>(
  shared: Shared,
  what: string,
  options: CallOptions | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const request = (repeats: number) => watched(shared, what, options, call, repeats);
  return retrying(request, retryPolicy(shared, what, { signal: options?.signal }));
}

function watched<T>(
  { deadlines, settings }: Shared,
  what: string,
  options: CallOptions | undefined,
  call: (signal: AbortSignal) => Promise<T>,
  repeats: number,
): Promise<T> {
  return withStallTimeout(call, {
    what,
    stallTimeoutMs: stallTimeoutMs(settings, repeats),
    graceMs: settings.stallTimeoutMs,
    deadlines,
    signal: options?.signal,
  });
}
