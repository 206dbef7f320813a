/**
 * Phase of a request when it failed. `head` runs from the first byte of the request to the last of
 * the answer's head.
 */
export type Phase = 'queue' | 'connect' | 'head' | 'body';

/**
 * Errors that a caller can act on. The list is complete.
 * - `BAD_REQUEST`: the request cannot be written as HTTP/1.1 (a control character, a header that
 *   the client sets itself). Nothing was sent.
 * - `BAD_HEAD`: the head of the answer breaks HTTP/1.1, or goes past a limit. Another client may be
 *   more lenient.
 * - `BAD_BODY`: the body breaks its framing, or cannot go into the buffer because it has no length,
 *   is chunked, or is encoded; or the text of an error has more than 1 MiB.
 * - `RANGE_MISMATCH`: the answer has other bytes than the requested range.
 * - `ETAG_MISMATCH`: the object has another ETag than the requested one.
 * - `TOO_LARGE`: the body of a success is larger than the buffer or, if it is read without one,
 *   than `bodyBytesMax`.
 * - `ABORTED`: the signal fired; its reason is the cause.
 * - `TIMED_OUT`: no connection within the connect timeout, or no byte in either direction for the
 *   idle timeout.
 * - `CLOSED_EARLY`: the connection ended before the answer did.
 * - `CONNECT_FAILED`: name not found, refused, unreachable; the cause is the system's error with
 *   its `code`.
 * - `TLS_FAILED`: the certificate is not trusted or is for another name, or client and server share
 *   no TLS version or cipher. The cause is OpenSSL's or Node's error.
 * - `CLIENT_CLOSED`: `close()` was called.
 * - `NOT_NODE`: this runtime does not read into the given buffer. Use another client.
 * - `UNEXPECTED`: anything else, with its cause; for example a buffer that was detached meanwhile.
 */
export type DirectHttpErrorCode =
  | 'BAD_REQUEST'
  | 'BAD_HEAD'
  | 'BAD_BODY'
  | 'RANGE_MISMATCH'
  | 'ETAG_MISMATCH'
  | 'TOO_LARGE'
  | 'ABORTED'
  | 'TIMED_OUT'
  | 'CLOSED_EARLY'
  | 'CONNECT_FAILED'
  | 'TLS_FAILED'
  | 'CLIENT_CLOSED'
  | 'NOT_NODE'
  | 'UNEXPECTED';

export interface DirectHttpErrorDetails {
  phase: Phase;
  bytes?: number;
  isStale?: boolean;
  cause?: unknown;
}

/**
 * Why a request has no answer. Messages contain no path, query or header value of a request: those
 * may be secrets.
 */
export class DirectHttpError extends Error {
  readonly code: DirectHttpErrorCode;
  readonly phase: Phase;
  /**
   * Bytes of the answer's body that had arrived. That many bytes of the destination may have been
   * overwritten.
   */
  readonly bytes: number;
  /**
   * A reused connection was closed before any byte of an answer. Most likely the server closed it
   * as idle and never saw the request, but that is not certain.
   */
  readonly isStale: boolean;

  constructor(code: DirectHttpErrorCode, message: string, details: DirectHttpErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'DirectHttpError';
    this.code = code;
    this.phase = details.phase;
    this.bytes = details.bytes ?? 0;
    this.isStale = details.isStale ?? false;
  }
}

/** The answer's head breaks HTTP/1.1. */
export function badHead(message: string): DirectHttpError {
  return new DirectHttpError('BAD_HEAD', message, { phase: 'head' });
}

/** For a request that is not on a connection. */
export function clientClosed(): DirectHttpError {
  return new DirectHttpError('CLIENT_CLOSED', 'the client was closed', { phase: 'queue' });
}

/**
 * Why there is no connection: a network error, or a TLS error. A truncated handshake counts as a
 * network error, because a retry may succeed.
 */
export function connectError(
  error: Error,
  { hostname, port }: { readonly hostname: string; readonly port: number },
  isTcpConnected: boolean,
): DirectHttpError {
  const code = 'code' in error ? error.code : undefined;
  const isTls = isTcpConnected && !('syscall' in error) && code !== 'ECONNRESET';
  const kind = isTls ? 'TLS connection' : 'connection';
  // An AggregateError, for several addresses, has no message of its own.
  const message = `no ${kind} to ${hostname}, port ${port}: ${error.message || String(code)}`;
  return new DirectHttpError(isTls ? 'TLS_FAILED' : 'CONNECT_FAILED', message, {
    phase: 'connect',
    cause: error,
  });
}

/** Converts a thrown value to a `DirectHttpError`. */
export function toDirectHttpError(error: unknown, phase: Phase, bytes: number): DirectHttpError {
  if (error instanceof DirectHttpError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new DirectHttpError('UNEXPECTED', message, { phase, bytes, cause: error });
}
