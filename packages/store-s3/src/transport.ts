/** How requests travel: over our own connections, which receive bodies in place, or over `node:http` where a proxy stands between. */

import { DirectHttpClient, DirectHttpError, type DirectRequest, type Into } from '@holdfast/direct-http';
import { buildQueryString, type HttpRequest } from '@smithy/core/protocols';
import type { ProxyEnvironment } from './config.ts';
import { refusalOf } from './errors.ts';
import { NodeHttp } from './node-http.ts';
import { goesThroughProxy } from './proxy.ts';

export type { Into };

/** Only against connections that are dead for good: the engine watches for silence, and knows how long it may take. */
const IDLE_TIMEOUT_MS = 15 * 60_000;

/** What the direct client refuses although another may not. */
const NEEDS_LENIENCE: readonly string[] = ['BAD_HEAD', 'NOT_NODE'];

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
  /** Further requests wait. */
  readonly connectionsMax: number;
}

export class Transport {
  readonly #direct: DirectHttpClient;
  readonly #options: TransportOptions;
  #nodeHttp: NodeHttp | undefined;
  #isLenient = false;

  constructor(options: TransportOptions) {
    const { ca, connectionsMax } = options;
    this.#options = options;
    this.#direct = new DirectHttpClient({
      connectionsMax,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
      ...(ca !== undefined && { tls: { ca } }),
    });
  }

  /**
   * Sends a signed request once. Buffers belong to the transport until the promise settles. An answer that is no success is thrown as
   * `S3Refusal`, also one whose status says 200 and whose body says otherwise.
   */
  async send(signed: HttpRequest, options: SendOptions): Promise<TransportAnswer> {
    const answer = await this.#exchange(signed, options);
    const isRefused = answer.status < 200 || answer.status >= 300;
    if (isRefused || (signed.method !== 'GET' && isErrorOfSuccess(answer))) {
      const { status, headers } = answer;
      throw refusalOf(
        { status, headers, hasBody: signed.method !== 'HEAD' },
        new TextDecoder().decode(answer.body),
      );
    }
    return answer;
  }

  async close(): Promise<void> {
    this.#nodeHttp?.close();
    await this.#direct.close();
  }

  async #exchange(signed: HttpRequest, options: SendOptions): Promise<TransportAnswer> {
    const request = directRequest(signed, options);
    if (this.#isLenient || goesThroughProxy(request, this.#options.proxy))
      return this.#throughNode(signed, request);
    try {
      return await this.#direct.request(request);
    } catch (error) {
      if (!(error instanceof DirectHttpError) || !NEEDS_LENIENCE.includes(error.code)) throw error;
      this.#isLenient = true; // from now on: node:http understands more dialects
      if (options.isRepeatable !== true) throw error;
      return this.#throughNode(signed, request);
    }
  }

  #throughNode(signed: HttpRequest, request: DirectRequest): Promise<TransportAnswer> {
    this.#nodeHttp ??= new NodeHttp(this.#options);
    return this.#nodeHttp.request(signed, request);
  }
}

function directRequest(
  request: HttpRequest,
  { into, isRepeatable, bodyBytesMax, onBytes, signal }: SendOptions,
): DirectRequest {
  const protocol = request.protocol === 'http:' ? 'http:' : 'https:';
  const query = buildQueryString(request.query);
  return {
    protocol,
    hostname: request.hostname.replace(/^\[|\]$/g, ''),
    port: request.port ?? (protocol === 'http:' ? 80 : 443),
    method: request.method,
    path: query === '' ? request.path : `${request.path}?${query}`,
    headers: request.headers,
    body: bytesOf(request.body),
    into,
    isRepeatable,
    bodyBytesMax,
    onBytes,
    signal,
  };
}

/** No command of ours has a body that is a stream. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body === null || body instanceof Uint8Array) return body ?? undefined;
  if (typeof body === 'string') return new TextEncoder().encode(body);
  throw new TypeError(`a request's body is bytes or text, not ${typeof body}`);
}

/** S3 begins the answer to a completion before it knows how that ends, with blanks as long as it takes. Objects say what they like. */
function isErrorOfSuccess({ status, body }: TransportAnswer): boolean {
  return (
    status === 200 &&
    body.byteLength > 0 && // as after each part and object
    body.byteLength < 64 * 1024 &&
    /^\s*(<\?xml[^>]*>\s*)?<Error>/.test(new TextDecoder().decode(body))
  );
}
