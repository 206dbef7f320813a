/**
 * Waiting for a free connection is not a stall. A store sends every request of a call with the
 * call's signal. Through the signal, the store reports how many of these requests wait for a
 * connection, and how many are on one.
 */

export interface RequestWatch {
  /**
   * Changes in the number of the call's requests that wait, and that are on a connection; below 0:
   * fewer. Cheap, and never throws.
   */
  changed(waiting: number, sent: number): void;
}

/** A registered symbol: it is the same in every copy of the package. */
const WATCH = Symbol.for('holdfast.request-watch');

interface WatchedSignal extends AbortSignal {
  [WATCH]?: RequestWatch;
}

/** From now on `watch` is told of the requests that are sent with this signal. */
export function watchRequests(signal: AbortSignal, watch: RequestWatch): void {
  (signal as WatchedSignal)[WATCH] = watch;
}

/** Receives a store's reports on requests with this signal; `undefined` if no watch was set. */
export function requestWatchOf(signal: AbortSignal | undefined): RequestWatch | undefined {
  return (signal as WatchedSignal | undefined)?.[WATCH];
}
