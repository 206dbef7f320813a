/**
 * Waiting for a free connection is not silence. A store sends every request of a call with the call's signal. The signal also carries
 * word back: how many of these requests wait for a connection, and how many are on one.
 */

export interface RequestWatch {
  /** By so many there are more requests of the call that wait, and that are on a connection; below 0: fewer. Cheap, and never throws. */
  changed(waiting: number, sent: number): void;
}

/** By this name in every copy of the package. */
const WATCH = Symbol.for('holdfast.request-watch');

interface WatchedSignal extends AbortSignal {
  [WATCH]?: RequestWatch;
}

/** From now on `watch` is told of the requests that are sent with this signal. */
export function watchRequests(signal: AbortSignal, watch: RequestWatch): void {
  (signal as WatchedSignal)[WATCH] = watch;
}

/** What a store tells of the requests that it sends with this signal; nothing if no watch was asked for. */
export function requestWatchOf(signal: AbortSignal | undefined): RequestWatch | undefined {
  return (signal as WatchedSignal | undefined)?.[WATCH];
}
