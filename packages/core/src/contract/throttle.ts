/**
 * A limit on the payload that saves send, shared by all managers that get the same throttle. It can
 * be changed at any time.
 */

export interface Throttle {
  /** `null`: no limit. */
  readonly bytesPerSecondMax: number | null;
  readonly isPaused: boolean;
  /**
   * Applies from now on, also to calls that already wait. `null`: no limit. `InvalidArgument`: not
   * a whole number from 1.
   */
  setBytesPerSecondMax(bytesPerSecondMax: number | null): void;
  /**
   * From now on no further payload is sent. Requests in flight finish, and so do their retries. A
   * save that has sent all its payload continues to its commit. The pause does not count against
   * the time limits of the save. But other writers that wait for this one do not wait longer than
   * their `commitTimeoutMs`. Safe to repeat.
   */
  pause(): void;
  /** Safe to repeat. */
  resume(): void;

  /**
   * The engine calls it, and so may a caller that sends other bytes under the same limit. Resolves
   * when `sizeBytes` may be sent. First come, first served. In a span of t seconds it allows at
   * most limit × (t + 0.1) bytes, and one request more. `Aborted` when the signal fires.
   * `InvalidArgument`: not a whole number from 0.
   */
  take(sizeBytes: number, signal?: AbortSignal): Promise<void>;
  /**
   * Counts bytes that were sent without `take`. A negative `sizeBytes` returns bytes that were
   * taken but not sent. Does not wait. `InvalidArgument`: not a whole number.
   */
  charge(sizeBytes: number): void;
}
