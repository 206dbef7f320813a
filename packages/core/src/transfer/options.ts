/** What callers give: the surroundings of all transfers, and the options of one. */

import type {
  Clock,
  Logger,
  Meter,
  ObjectStore,
  Random,
  Settings,
  Throttle,
  TransferMemory,
} from '../contract/index.ts';

/** An async iterable is asked for each item when the transfer is ready for it. */
export type Items<I> = Iterable<I> | AsyncIterable<I>;

export interface TransferParts {
  readonly store: ObjectStore;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Measures uploads and downloads; absent: they are not measured. */
  readonly meter?: Meter | undefined;
  /** Limits the payload that `upload` sends; absent: no limit. */
  readonly throttle?: Throttle | undefined;
  /** From `createTransferMemory`; absent: memory of its own. */
  readonly memory?: TransferMemory | undefined;
}

export interface TransferOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * All requests end within a second after `signal` has fired, including those that tidy up.
   * Default: tidying up may take seconds.
   */
  readonly endsFast?: boolean | undefined;
  /**
   * Bytes of `name` that are in the store, or verified and written. Never decreases. `doneBytes`
   * equals `totalBytes` in the last call for a complete file, and in no other. The total of a
   * stream is unknown until it ends; `totalBytes` is at least `doneBytes + 1` until then.
   */
  readonly onBytes?: ((name: string, doneBytes: number, totalBytes: number) => void) | undefined;
  /** A request is about to be repeated. `detail`: the reason, as text. */
  readonly onRetry?: ((detail: string) => void) | undefined;
}
