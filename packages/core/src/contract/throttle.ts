/** A limit on the payload that saves send, for all managers that are given it together. It can be changed at any time. */

export interface Throttle {
  /** `null`: no limit. */
  readonly bytesPerSecondMax: number | null;
  readonly isPaused: boolean;
  /** Holds from now on, also for what waits already. `null`: no limit. `InvalidArgument`: not a whole number from 1. */
  setBytesPerSecondMax(bytesPerSecondMax: number | null): void;
  /**
   * From now on no payload is begun to be sent: requests that are out finish, repeats of them too. A save that has sent all its payload goes
   * on to its commit. Nothing runs into a time limit by it, except other writers that wait for this one (`commitTimeoutMs`). Safe to repeat.
   */
  pause(): void;
  /** Safe to repeat. */
  resume(): void;

  /**
   * What the engine calls, and whoever has bytes of his own to send by the same budget: resolves when so many may be sent. First come, first
   * served. Over any span no more is let through than the limit allows in it and in 100 ms more, and what was asked for last. `Aborted` when
   * the signal fires. `InvalidArgument`: not a whole number from 0.
   */
  take(sizeBytes: number, signal?: AbortSignal): Promise<void>;
  /** So many bytes were sent besides those that were taken; below 0: they were taken and not sent. Waits for nobody. `InvalidArgument`: not a whole number. */
  charge(sizeBytes: number): void;
}
