/** How requests travel: over our own connections, which receive bodies in place, or over `node:http` where a proxy stands between. */

import { DirectHttpClient, DirectHttpError, type DirectRequest, type Into } from '@holdfast/direct-http';
import type { RefusedAnswer } from './errors.ts';
import { NodeHttp } from './node-http.ts';
import { goesThroughProxy, type ProxyEnvironment } from './proxy.ts';

export type { Into };

/** Only against connections that are dead for good: the engine watches for silence, and knows how long it may take. */
const IDLE_TIMEOUT_MS = 15 * 60_000;

/** Beyond what the engine keeps in flight, for records and a second try of a slow part. */
const CONNECTIONS_MAX = 128;

/** What the direct client refuses although another may not. */
const NEEDS_LENIENCE: readonly string[] = ['BAD_HEAD', 'NOT_NODE'];

/** Ready to be sent: with its credentials. */
export interface TransportRequest {
  readonly protocol: 'http:' | 'https:';
  /** Without brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly method: string;
  /** With the query, encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Belongs to the transport until the promise settles. */
  readonly body?: Uint8Array | undefined;
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called whenever bytes have moved; `node:http` does not tell. */
  readonly onBytes?: (() => void) | undefined;
  /** Where the body of a success goes; without it the answer holds it. */
  readonly into?: Into | undefined;
  /** May be sent once more when a connection that was kept open turns out to be closed. */
  readonly isRepeatable?: boolean | undefined;
  /** A larger body is refused before it is read. */
  readonly bodyBytesMax?: number | undefined;
}

export interface TransportAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Empty if it went into the buffer. */
  readonly body: Uint8Array;
  readonly bytesInto: number | undefined;
}

export interface TransportOptions {
  /** PEM, all that are trusted; left out: those that Node trusts. */
  readonly ca?: readonly string[] | undefined;
  readonly proxy: ProxyEnvironment;
  /** What the provider calls an answer that is no success. `body`: as text. */
  readonly refusalOf: (answer: RefusedAnswer, body: string) => Error;
  /** An answer of success whose body says otherwise, where the provider has that. */
  readonly isRefusedSuccess?: (request: TransportRequest, answer: TransportAnswer) => boolean;
}

export class HttpTransport {
  readonly #direct: DirectHttpClient;
  readonly #options: TransportOptions;
  #nodeHttp: NodeHttp | undefined;
  #isLenient = false;

  constructor(options: TransportOptions) {
    const { ca } = options;
    this.#options = options;
    this.#direct = new DirectHttpClient({
      connectionsMax: CONNECTIONS_MAX,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
      ...(ca !== undefined && { tls: { ca } }),
    });
  }

  /**
   * Sends a request once. Buffers belong to the transport until the promise settles. An answer that is no success is thrown as what
   * `refusalOf` makes of it; a redirect is none.
   */
  async send(request: TransportRequest, options: SendOptions = {}): Promise<TransportAnswer> {
    const { signal, onBytes, into, isRepeatable, bodyBytesMax } = options;
    const answer = await this.#exchange({ ...request, signal, onBytes, into, isRepeatable, bodyBytesMax });
    const { status, headers } = answer;
    const { refusalOf, isRefusedSuccess } = this.#options;
    if (status >= 200 && status < 300 && isRefusedSuccess?.(request, answer) !== true) return answer;
    throw refusalOf(
      { status, headers, hasBody: request.method !== 'HEAD' },
      new TextDecoder().decode(answer.body),
    );
  }

  async close(): Promise<void> {
    this.#nodeHttp?.close();
    await this.#direct.close();
  }

  async #exchange(request: DirectRequest): Promise<TransportAnswer> {
    if (this.#isLenient || goesThroughProxy(request, this.#options.proxy)) return this.#throughNode(request);
    try {
      return await this.#direct.request(request);
    } catch (error) {
      if (!(error instanceof DirectHttpError) || !NEEDS_LENIENCE.includes(error.code)) throw error;
      this.#isLenient = true; // from now on: node:http understands more dialects
      if (request.isRepeatable !== true) throw error;
      return this.#throughNode(request);
    }
  }

  #throughNode(request: DirectRequest): Promise<TransportAnswer> {
    this.#nodeHttp ??= new NodeHttp({ ...this.#options, connectionsMax: CONNECTIONS_MAX });
    return this.#nodeHttp.request(request);
  }
}
