/**
 * Objects of any store that no checkpoint describes, such as those that another program has
 * written. They are read with the same retries, the same limit on silence and the same bounded
 * memory as files of a checkpoint.
 */

import {
  abortSignal,
  aClock,
  aLogger,
  anyText,
  aRandom,
  aStore,
  assertObjectKey,
  CheckpointError,
  type Clock,
  checkSome,
  completeSettings,
  type Logger,
  type ObjectInfo,
  type ObjectStore,
  optional,
  type Random,
  type RandomSource,
  type Rules,
  type Settings,
  silentLogger,
  systemClock,
  systemRandom,
  whenDropped,
  wholeNumber,
} from '../contract/index.ts';
import type { Transfers } from './api.ts';
import type { TransferParts } from './options.ts';
import { createTransfers } from './transfers.ts';

export interface ObjectOptions {
  /** Stops the call. For a source, it also stops all later calls. */
  signal?: AbortSignal | undefined;
  settings?: Partial<Settings> | undefined;
  clock?: Clock | undefined;
  random?: Random | undefined;
  logger?: Logger | undefined;
}

interface Use {
  readonly transfers: Transfers;
  count: number;
}

/** The transfers in use, by store. */
const uses = new WeakMap<ObjectStore, Use>();

/**
 * The bytes of an object at any position. `readInto` and `assertUnchanged` retry for a while. The
 * bytes cannot be verified, but all are of one object: `SourceChanged` as soon as the object is
 * gone or another has its key. Any number of reads may run at once. `NotFound`: there is no such
 * object. `InvalidArgument`: a range outside the object.
 *
 * Closing the source leaves the store open. It stops reads in progress within a second, with
 * `Aborted`, as `signal` does. A source that is dropped is closed once it is garbage-collected.
 *
 * All open sources of one store share one byte budget (`settings.bufferBytes`). The settings of the
 * first source apply.
 */
export async function openObjectSource(
  store: ObjectStore,
  key: string,
  options: ObjectOptions = {},
): Promise<RandomSource> {
  assertObjectKey(key);
  const { transfers, release } = use(complete(store, options));
  try {
    const source = await transfers.objectSource(key, { signal: options.signal });
    const close = () => source.close().then(release);
    const handle: RandomSource = {
      sizeBytes: source.sizeBytes,
      readInto: (offsetBytes, buffer) => source.readInto(offsetBytes, buffer),
      assertUnchanged: () => source.assertUnchanged(),
      close: () => {
        forget();
        return close();
      },
    };
    const forget = whenDropped(handle, () => void close());
    return handle;
  } catch (error) {
    await release();
    throw error;
  }
}

/**
 * The objects whose keys start with `prefix`, in ascending order of the key's UTF-8 bytes. One
 * request per page, retried for a while if it fails. `InvalidArgument`: there are more than
 * `countMax`.
 */
export async function listObjects(
  store: ObjectStore,
  prefix: string,
  options: ObjectOptions & { readonly countMax: number },
): Promise<ObjectInfo[]> {
  anyText('prefix', prefix);
  checkSome(options, { ...OPTIONS, countMax: wholeNumber(1) });
  return withRecords(store, options, async ({ records }) => {
    const found: ObjectInfo[] = [];
    for await (const { objects } of records.list(prefix, { signal: options.signal })) {
      found.push(...objects);
      if (found.length > options.countMax) throw tooMany(store, prefix, options.countMax);
    }
    return found;
  });
}

/**
 * For small objects of a store that no manager has opened. `records` is `Transfers.records`, valid
 * until `work` has settled.
 */
export async function withRecords<T>(
  store: ObjectStore,
  options: ObjectOptions,
  work: (parts: TransferParts & { readonly records: ObjectStore }) => Promise<T>,
): Promise<T> {
  const parts = complete(store, options);
  const { transfers, release } = use(parts);
  try {
    return await work({ ...parts, records: transfers.records });
  } finally {
    await release();
  }
}

const OPTIONS: Rules<ObjectOptions> = {
  signal: optional(abortSignal),
  settings: () => undefined, // `completeSettings` checks them.
  clock: optional(aClock),
  random: optional(aRandom),
  logger: optional(aLogger),
};

function complete(store: ObjectStore, options: ObjectOptions): TransferParts {
  aStore('store', store);
  checkSome(options, OPTIONS);
  const { settings, clock, random, logger } = options;
  return {
    store,
    settings: completeSettings(settings),
    clock: clock ?? systemClock,
    random: random ?? systemRandom,
    logger: logger ?? silentLogger,
  };
}

function use(parts: TransferParts): {
  readonly transfers: Transfers;
  readonly release: () => Promise<void>;
} {
  const { store } = parts;
  const open = uses.get(store) ?? { count: 0, transfers: createTransfers(parts) };
  open.count += 1;
  uses.set(store, open);
  let isReleased = false;
  const release = async () => {
    if (isReleased) return;
    isReleased = true;
    open.count -= 1;
    if (open.count > 0) return;
    uses.delete(store);
    await open.transfers.close();
  };
  return { transfers: open.transfers, release };
}

function tooMany(store: ObjectStore, prefix: string, countMax: number): CheckpointError {
  const message = `more than ${countMax} objects below "${prefix}" of ${store.uri}; give a prefix with fewer`;
  return new CheckpointError('InvalidArgument', message, { context: { store: store.uri } });
}
