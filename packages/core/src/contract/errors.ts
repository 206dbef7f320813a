/**
 * The one error class of Holdfast and the closed list of its codes.
 *
 * A code exists only if a caller would react differently to it. The message is for people and may
 * change.
 */

import { jsonReady } from './json.ts';

/**
 * `permanent`: the same call fails again. `temporary`: a retry may succeed, and a write that failed
 * may still have had its effect. `exhausted`: the error was temporary, and the retries or the
 * deadline are used up. Or a write may have had its effect, and a repeat does not help.
 */
export type ErrorStatus = 'permanent' | 'temporary' | 'exhausted';

interface CodeFacts {
  readonly status: ErrorStatus;
  /** Exit status of the command line. */
  readonly exitCode: number;
  /**
   * What a person should do, in terms of the library's calls and settings. The command line has its
   * own texts.
   */
  readonly advice: string;
}

export const ERROR_CODES = {
  InvalidArgument: {
    status: 'permanent',
    exitCode: 2,
    advice: 'Correct the argument that the message names.',
  },
  InvalidConfig: {
    status: 'permanent',
    exitCode: 2,
    advice: 'Correct the URI, setting or environment variable that the message names.',
  },
  WorldSizeMismatch: {
    status: 'permanent',
    exitCode: 2,
    advice: 'Pass the same writer count in every writer of one attempt, or use a new attempt id.',
  },
  Unsupported: {
    status: 'permanent',
    exitCode: 2,
    advice: 'Use a store or a setting that has this capability.',
  },
  Incomplete: {
    status: 'exhausted',
    exitCode: 3,
    advice: 'Call `commit` once the named writers have delivered, or save again.',
  },
  BaseGone: {
    status: 'permanent',
    exitCode: 3,
    advice: 'Save the next version: it sends the bytes again instead of referring to a removed checkpoint.',
  },
  Fenced: {
    status: 'permanent',
    exitCode: 4,
    advice: 'Stop this process: a newer attempt, rollback or life of the same writer owns the run.',
  },
  Corrupt: {
    status: 'permanent',
    exitCode: 5,
    advice: "Restore another version (`onCorrupt: 'fallback'`) and find out what damaged the object.",
  },
  StoreRegressed: {
    status: 'permanent',
    exitCode: 5,
    advice: 'The store shows an older catalog than it did before: stop all writers and repair the store.',
  },
  UnsupportedFormat: {
    status: 'permanent',
    exitCode: 1,
    advice: 'Upgrade Holdfast: a newer version of it wrote this record.',
  },
  NotFound: {
    status: 'permanent',
    exitCode: 6,
    advice: 'Check the URI and the version.',
  },
  AlreadyExists: {
    status: 'permanent',
    exitCode: 7,
    advice: 'Choose another name: objects are created once and never replaced.',
  },
  Conflict: {
    status: 'permanent',
    exitCode: 7,
    advice: 'Choose a higher version: this one is already decided, with other content.',
  },
  TargetExists: {
    status: 'permanent',
    exitCode: 7,
    advice: 'Restore into a new or empty directory, or pass `replace`.',
  },
  Denied: {
    status: 'permanent',
    exitCode: 8,
    advice: 'Check the credentials and their permissions on this store.',
  },
  ReadOnly: {
    status: 'permanent',
    exitCode: 8,
    advice: 'Make the store writable, or use another one.',
  },
  StorageFull: {
    status: 'permanent',
    exitCode: 75,
    advice: 'Free space or raise the quota, then repeat the call.',
  },
  SourceChanged: {
    status: 'permanent',
    exitCode: 75,
    advice:
      'Save again when nothing writes to the source. Exclude a file that is always written to, such as a log.',
  },
  Stale: {
    status: 'permanent',
    exitCode: 1,
    advice: "Find out why the trainer wrote no new files; pass `onStale: 'warn'` to save them anyway.",
  },
  Throttled: {
    status: 'temporary',
    exitCode: 75,
    advice: 'Repeat the call later, with less concurrency or with larger parts (partSizeBytesMin).',
  },
  Unavailable: {
    status: 'temporary',
    exitCode: 75,
    advice: 'Check that the store can be reached, then repeat the call.',
  },
  TimedOut: {
    status: 'exhausted',
    exitCode: 75,
    advice: 'Repeat the call, with a longer timeout if the store is slow.',
  },
  OutcomeUnknown: {
    status: 'exhausted',
    exitCode: 75,
    advice:
      'Call `recover` with `context.token`. If there is no token, `context.advice` or the message says more. Delete nothing.',
  },
  Aborted: {
    status: 'permanent',
    exitCode: 130,
    advice: 'Repeat the call: its decision was not sent.',
  },
  Unexpected: {
    status: 'permanent',
    exitCode: 1,
    advice: 'Report it with the message, its causes and their stacks.',
  },
} as const satisfies Record<string, CodeFacts>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** Place of the error. Never holds a secret or a signed URL. */
export interface ErrorContext {
  /** URI of the store, without credentials. */
  store?: string;
  key?: string;
  name?: string;
  path?: string;
  version?: bigint;
  writer?: number;
  attempt?: string;
  /** Byte range, end exclusive. */
  range?: { start: number; end: number };
  expected?: string;
  found?: string;
  /** `OutcomeUnknown`: what `recover()` takes. Not there after `releaseLease`. */
  token?: string;
  /**
   * For a save that was stopped during its takeover of the run: the token of the takeover, for
   * `recover()`.
   */
  takeoverToken?: string | undefined;
  /**
   * For a call with several decisions: what it had decided before it failed, in words. Those
   * decisions stand.
   */
  done?: readonly string[];
  /**
   * `Fenced`: why the caller no longer owns the run: another attempt, a rollback, or a later
   * process of the same writer.
   */
  overtakenBy?: 'attempt' | 'rollback' | 'process';
  /** `Incomplete`: the writers that have not delivered. */
  missing?: readonly { writer: number; detail: string }[];
  [detail: string]: unknown;
}

export interface ErrorOptions {
  context?: ErrorContext;
  cause?: unknown;
  /** Overrides the status of the code, for an `Unavailable` whose retries are used up. */
  status?: ErrorStatus;
  /** How long the store asks to wait before the next request. */
  retryAfterMs?: number | undefined;
}

const MARK = Symbol.for('holdfast.error');

export class CheckpointError extends Error {
  readonly code: ErrorCode;
  readonly status: ErrorStatus;
  readonly context: ErrorContext;
  /** How long the store asks to wait before the next request; `undefined` if it did not say. */
  readonly retryAfterMs: number | undefined;
  readonly [MARK] = true;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CheckpointError';
    this.code = code;
    this.status = options.status ?? ERROR_CODES[code].status;
    this.context = options.context ?? {};
    this.retryAfterMs = options.retryAfterMs;
  }

  get exitCode(): number {
    return ERROR_CODES[this.code].exitCode;
  }

  /** What a person should do about it. */
  get advice(): string {
    return ERROR_CODES[this.code].advice;
  }

  /** For logs: code, message and context, without a stack. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { name, code, status, message, context } = this;
    return { name, code, status, message, context: jsonReady(context) };
  }
}

/**
 * True for a Holdfast error, of the given code if one is given.
 * Works across two copies of the package, where `instanceof` does not.
 */
export function isCheckpointError(error: unknown, code?: ErrorCode): error is CheckpointError {
  const marked = typeof error === 'object' && error !== null && MARK in error;
  return marked && (code === undefined || (error as CheckpointError).code === code);
}

/**
 * Whether a manager was stopped because its run was removed and another one begun at the same
 * place, or because its catalog was rebuilt. A new manager works on the run that is there now.
 */
export function isOfAnotherRun(error: unknown): error is CheckpointError {
  return isCheckpointError(error, 'Corrupt') && error.context['catalog'] === 'another-run';
}

/**
 * Returns a Holdfast error unchanged; wraps any other error in `Unexpected`, with it as the cause.
 */
export function toCheckpointError(error: unknown, context?: ErrorContext): CheckpointError {
  if (isCheckpointError(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new CheckpointError('Unexpected', message, { cause: error, ...(context && { context }) });
}

/** Throws `Aborted` if the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal);
}

/**
 * `Aborted` with the signal's reason as cause. A reason that is a Holdfast error is returned
 * unchanged.
 */
export function abortError(signal: AbortSignal): CheckpointError {
  const reason: unknown = signal.reason;
  if (isCheckpointError(reason)) return reason;
  return new CheckpointError('Aborted', 'the caller stopped the operation', { cause: reason });
}

/**
 * True if the error only reports that the call was stopped: by `signal`, whose reason may be an
 * error of any code, or by a store that was closed.
 */
export function isStopOf(error: unknown, signal: AbortSignal | undefined): error is CheckpointError {
  if (isCheckpointError(error, 'Aborted')) return true;
  return signal?.aborted === true && isCheckpointError(error) && error === signal.reason;
}

/**
 * Waits for `work` until the signal fires. `work` itself continues, because other callers may wait
 * for it.
 */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const stop = () => reject(abortError(signal));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}
