import type { ErrorCode } from '@holdfast/core/contract';
import type { StoreOperation } from '@holdfast/core/store';

/**
 * What the provider does with a request:
 * - `none`: nothing.
 * - `once`, `twice`: carries it out once or twice.
 * - `late`: carries it out after the caller has stopped waiting.
 * - `once-and-late`: carries it out at once, and again later, as a delayed duplicate in the
 *   network.
 *
 * A request that only reads has no late effect.
 */
export type Effect = 'none' | 'once' | 'twice' | 'late' | 'once-and-late';

interface Lateness {
  /**
   * The late effect takes place just before the n-th later call. Absent: when the test releases it.
   */
  readonly lateAfterCalls?: number | undefined;
}

/** A fault of one call: the effect of the request, and the reply to the caller. */
export type Fault = Lateness &
  (
    | { readonly effect: 'once' | 'twice' | 'once-and-late'; readonly reply: 'real' }
    /** The answer to the second of two: a create that succeeded then reports `AlreadyExists`. */
    | { readonly effect: 'twice'; readonly reply: 'second' }
    /** Default of `error`: `Unavailable`. */
    | { readonly effect: Effect; readonly reply: 'error'; readonly error?: ErrorCode | undefined }
    /**
     * `stall`: no answer until the caller's signal fires. `stop`: no answer, and from now on the
     * process is dead.
     */
    | { readonly effect: Effect; readonly reply: 'stall' | 'stop' }
  );

/** The faults by name. */
export const FAULTS = {
  /** The process dies before it sends the request. */
  stopBefore: { effect: 'none', reply: 'stop' },
  /** The process dies after the request was carried out, before the reply. */
  stopAfter: { effect: 'once', reply: 'stop' },
  /** The process dies, and its request takes effect later. */
  stopInFlight: { effect: 'late', reply: 'stop' },
  loseRequest: { effect: 'none', reply: 'error' },
  loseReply: { effect: 'once', reply: 'error' },
  /** The caller gets `Unavailable`, and the request takes effect later. */
  delay: { effect: 'late', reply: 'error' },
  duplicate: { effect: 'twice', reply: 'real' },
  /**
   * Like `duplicate`, but the second answer arrives: a client library's own retry after a lost
   * reply.
   */
  duplicateSecondReply: { effect: 'twice', reply: 'second' },
  duplicateLate: { effect: 'once-and-late', reply: 'real' },
  stall: { effect: 'none', reply: 'stall' },
  stallAfter: { effect: 'once', reply: 'stall' },
} as const satisfies Record<string, Fault>;

export type FaultName = keyof typeof FAULTS;

/** The request is rejected with this code and has no effect. */
export function refuse(error: ErrorCode): Fault {
  return { effect: 'none', reply: 'error', error };
}

/** A call that is about to be made. */
export interface PlannedCall {
  /** Index among all calls of its `FaultyStore`, from 0. */
  readonly number: number;
  readonly operation: StoreOperation;
  /** For `list` the prefix, for `deleteMany` the first key, for `resumeUpload` empty. */
  readonly key: string;
  /** Index of the part, for `putPart`. */
  readonly partIndex?: number | undefined;
}

/** Decides about each call; `undefined`: no fault. Called once per call, in order. */
export type FaultPlan = (call: PlannedCall) => Fault | undefined;
