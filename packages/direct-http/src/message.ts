/** Where the body of a 200 or 206 goes. */
export interface Into {
  /**
   * Exactly the bytes that may be written, from the first on; other memory of its ArrayBuffer is
   * not touched. The body may be shorter only where the object ends.
   */
  buffer: Uint8Array;
  /**
   * Offset in the object of the buffer's first byte; the range asked for must start there. Default
   * 0.
   */
  startBytes?: number;
  /** The answer's ETag must equal it, quotes included. */
  etag?: string;
}

export interface DirectRequest {
  protocol: 'http:' | 'https:';
  /** An IPv6 address stands without brackets. */
  hostname: string;
  port: number;
  method: string;
  /** With the query, already encoded; starts with '/'. */
  path: string;
  /**
   * `host` and `content-length` are set by the client; a given `host` is kept, since it may be
   * signed. `content-length` may be given if it is right. `connection`, `transfer-encoding`,
   * `trailer` and `upgrade` are refused.
   */
  headers: Readonly<Record<string, string>>;
  /** Belongs to the client until the promise settles. */
  body?: Uint8Array | undefined;
  /**
   * Destination of the answer's body; belongs to the client until the promise settles, and nobody
   * writes to it after that. Before its first byte is written, head, range and ETag have been
   * checked. After a failure its content is undefined if `bytes` of the error is not 0.
   */
  into?: Into | undefined;
  /**
   * The request may be sent once more, on a new connection, when a reused one turns out closed
   * before any byte of an answer. Default false.
   */
  isRepeatable?: boolean | undefined;
  /**
   * Of a success that is collected, not of one that goes into the buffer. Default 16 MiB; of status
   * 300 and up, always 1 MiB.
   */
  bodyBytesMax?: number | undefined;
  /**
   * Called whenever bytes of the answer have come or a piece of the body has been sent. Cheap, and
   * never throws.
   */
  onBytes?: (() => void) | undefined;
  /** Fails the request with `ABORTED`. */
  signal?: AbortSignal | undefined;
  /**
   * No byte in either direction for so long fails the request with `TIMED_OUT`. Over TLS bytes
   * count when their record, of at most 16 KiB, is complete. While a body is sent it can take three
   * times as long to notice. Default: the client's.
   */
  idleTimeoutMs?: number | undefined;
}

/** An answer of any status; a redirect is reported, not followed. */
export interface DirectResponse {
  status: number;
  /**
   * Names in lower case, repeated ones joined by ", "; trailers are dropped. Without a prototype.
   */
  headers: Readonly<Record<string, string>>;
  /** Empty when the body went into the buffer. */
  body: Uint8Array;
  /** Bytes of `into.buffer` that were filled; undefined unless a 200 or 206 went there. */
  bytesInto: number | undefined;
  /** The connection had carried another request before. */
  isReused: boolean;
}
