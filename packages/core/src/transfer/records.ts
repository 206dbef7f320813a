/** The store for records. Requests are retried if they may be repeated, one request at a time. */

import {
  CheckpointError,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  isCheckpointError,
  isStopOf,
  type ObjectInfo,
  type ObjectStore,
  type StoredObject,
  throwIfAborted,
} from '../contract/index.ts';
import { checksumProblem } from '../format/record-checksum.ts';
import { changedOnTheWay, isChangedOnTheWay } from './changed-on-the-way.ts';
import { directoryPages, listPages } from './listing.ts';
import { retrying } from './retry.ts';
import { retryPolicy, type Shared } from './shared.ts';
import { send, watched } from './small-requests.ts';

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
    listDirectories: (prefix, options) => directoryPages(shared, prefix, options ?? {}),
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
