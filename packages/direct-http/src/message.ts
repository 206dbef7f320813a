/** Destination of the body of a 200 or 206. */
export interface Into {
  /**
   * Exactly the bytes that may be written, from the first on. The rest of its ArrayBuffer is not
   * touched. The body may be shorter only at the end of the object.
   */
  buffer: Uint8Array;
  /**
   * Offset in the object of the buffer's first byte. The requested range must start there. Default
   * 0.
   */
  startBytes?: number;
  /** The answer's ETag must equal it, quotes included. */
  etag?: string;
}

export interface DirectRequest {
  protocol: 'http:' | 'https:';
  /** An IPv6 address has no brackets. */
  hostname: string;
  port: number;
  method: string;
  /** With the query, already encoded; starts with '/'. */
  path: string;
  /**
   * The client sets `host` and `content-length`. A given `host` is kept, since it may be signed. A
   * given `content-length` must be correct. `connection`, `transfer-encoding`, `trailer` and
   * `upgrade` are rejected.
   */
  headers: Readonly<Record<string, string>>;
  /** Belongs to the client until the promise settles. */
  body?: Uint8Array | undefined;
  /**
   * Destination of the answer's body. It belongs to the client until the promise settles, and is
   * not written after that. Head, range and ETag are checked before its first byte is written.
   * After a failure its content is undefined if `bytes` of the error is not 0.
   */
  into?: Into | undefined;
  /**
   * The request may be sent once more, on a new connection, if a reused one turns out closed before
   * any byte of an answer. Default false.
   */
  isRepeatable?: boolean | undefined;
  /**
   * Limit for a successful body that is collected, not for one that goes into the buffer. Default
   * 16 MiB. For status 300 and up it is always 1 MiB.
   */
  bodyBytesMax?: number | undefined;
  /**
   * Called whenever bytes of the answer have arrived or a piece of the body has been sent. Must be
   * cheap, and must not throw.
   */
  onBytes?: (() => void) | undefined;
  /** Fails the request with `ABORTED`. */
  signal?: AbortSignal | undefined;
  /**
   * The request fails with `TIMED_OUT` after this time without a byte in either direction. Over TLS
   * bytes count when their record, of at most 16 KiB, is complete. While a body is sent, detection
   * can take three times as long. Default: the client's.
   */
  idleTimeoutMs?: number | undefined;
}

/** An answer with any status. Redirects are returned, not followed. */
export interface DirectResponse {
  status: number;
  /**
   * Names in lower case, repeated ones joined by ", ". Trailers are dropped. The object has no
   * prototype.
   */
  headers: Readonly<Record<string, string>>;
  /** Empty when the body went into the buffer. */
  body: Uint8Array;
  /** Number of bytes written to `into.buffer`; undefined unless a 200 or 206 went there. */
  bytesInto: number | undefined;
  /** The connection had carried another request before. */
  isReused: boolean;
}
