import type { ErrorCode } from '@holdfast/core/contract';
import type { StoreOperation } from '@holdfast/core/store';

/**
 * What the provider does with a request: nothing; carries it out once or twice; carries it out
 * late, when nobody waits for it any more; or at once and, as a duplicate that lingered in the
 * network, again later. A request that only reads has no effect to be late with.
 */
export type Effect = 'none' | 'once' | 'twice' | 'late' | 'once-and-late';

interface Lateness {
  /** The late effect lands just before the n-th later call. Absent: when the test releases it. */
  readonly lateAfterCalls?: number | undefined;
}

/** What goes wrong with one call: what becomes of the request, and what the caller gets to know. */
export type Fault = Lateness &
  (
    | { readonly effect: 'once' | 'twice' | 'once-and-late'; readonly reply: 'real' }
    /**
     * The answer to the second of two: of a create one's own success comes back as `AlreadyExists`.
     */
    | { readonly effect: 'twice'; readonly reply: 'second' }
    /** Default of `error`: `Unavailable`. */
    | { readonly effect: Effect; readonly reply: 'error'; readonly error?: ErrorCode | undefined }
    /**
     * `stall`: no answer until the caller's signal fires. `stop`: no answer, and the process is
     * dead from now on.
     */
    | { readonly effect: Effect; readonly reply: 'stall' | 'stop' }
  );

/** The faults by name. */
export const FAULTS = {
  /** The process dies before the request leaves it. */
  stopBefore: { effect: 'none', reply: 'stop' },
  /** The process dies after the request was carried out, before the reply. */
  stopAfter: { effect: 'once', reply: 'stop' },
  /** The process dies and its request lands later. */
  stopInFlight: { effect: 'late', reply: 'stop' },
  loseRequest: { effect: 'none', reply: 'error' },
  loseReply: { effect: 'once', reply: 'error' },
  /** The caller is told `Unavailable`, and the request lands later. */
  delay: { effect: 'late', reply: 'error' },
  duplicate: { effect: 'twice', reply: 'real' },
  /**
   * As `duplicate`, but it is the second answer that arrives: what a client library's own retry
   * makes of a lost reply.
   */
  duplicateSecondReply: { effect: 'twice', reply: 'second' },
  duplicateLate: { effect: 'once-and-late', reply: 'real' },
  stall: { effect: 'none', reply: 'stall' },
  stallAfter: { effect: 'once', reply: 'stall' },
} as const satisfies Record<string, Fault>;

export type FaultName = keyof typeof FAULTS;

/** The request is refused with this code and has no effect. */
export function refuse(error: ErrorCode): Fault {
  return { effect: 'none', reply: 'error', error };
}

/** A call that is about to be made. */
export interface PlannedCall {
  /** Place among all calls of its `FaultyStore`, from 0. */
  readonly number: number;
  readonly operation: StoreOperation;
  /** Of `list` the prefix; of `deleteMany` the first key; of `resumeUpload` empty. */
  readonly key: string;
  /** Of `putPart`: which. */
  readonly partIndex?: number | undefined;
}

/** Decides over each call; `undefined`: nothing goes wrong. Asked once per call, in order. */
export type FaultPlan = (call: PlannedCall) => Fault | undefined;
