/** Errors as the agent tells them. The codes are those of the library. */

import { type CheckpointError, type ErrorCode, jsonReady, toCheckpointError } from '@holdfast/core/contract';
import type { Problem } from './api/shapes.ts';

/** HTTP status of each code. A client decides by the code; proxies and people see the status. */
const HTTP_STATUS: Readonly<Record<ErrorCode, number>> = {
  InvalidArgument: 400,
  InvalidConfig: 400,
  WorldSizeMismatch: 400,
  Unsupported: 400,
  Denied: 403,
  ReadOnly: 403,
  NotFound: 404,
  Incomplete: 409,
  BaseGone: 409,
  Fenced: 409,
  AlreadyExists: 409,
  Conflict: 409,
  TargetExists: 409,
  SourceChanged: 409,
  Stale: 409,
  Aborted: 409,
  Throttled: 429,
  Corrupt: 500,
  StoreRegressed: 500,
  UnsupportedFormat: 500,
  Unexpected: 500,
  Unavailable: 503,
  TimedOut: 504,
  OutcomeUnknown: 504,
  StorageFull: 507,
};

/** A later try of the same call may succeed, unchanged. */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set(['Throttled', 'Unavailable', 'TimedOut', 'Incomplete']);

/** An error of HTTP itself, whose status does not follow from its code. */
export class HttpProblem extends Error {
  readonly status: number;
  readonly error: CheckpointError;
  /** Besides the context of the error. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, error: CheckpointError, details: Readonly<Record<string, unknown>> = {}) {
    super(error.message);
    this.status = status;
    this.error = error;
    this.details = details;
  }
}

export function problemOf(error: unknown): Problem {
  const problem = error instanceof HttpProblem ? error : undefined;
  const { code, message, context } = toCheckpointError(problem?.error ?? error);
  // Through JSON: versions become texts here too, and what JSON cannot hold is left out.
  const details = JSON.parse(JSON.stringify(jsonReady({ ...context, ...problem?.details }))) as Record<
    string,
    unknown
  >;
  return { code, message, details, retryable: RETRYABLE.has(code) };
}

export function statusOf(error: unknown): number {
  if (error instanceof HttpProblem) return error.status;
  return HTTP_STATUS[toCheckpointError(error).code];
}
