/**
 * Sends requests: over our own connections, which receive bodies in place, or over `node:http` if a
 * proxy is needed.
 */

import { type TransferWorkers, workersOf } from '@holdfast/core/contract';
import { DirectHttpClient, DirectHttpError, type DirectRequest, type Into } from '@holdfast/direct-http';
import { ConnectionQueue } from './connection-queue.ts';
import type { RefusedAnswer } from './errors.ts';
import type { NodeHttp } from './node-http.ts';
import { told } from './plain-error.ts';
import { type HttpProxy, type Proxies, ProxyRefusal } from './proxy.ts';
import { conceal } from './secret.ts';
import { unwritableRequest } from './unwritable.ts';
import { WorkerHttp } from './worker-http.ts';

export type { Into };

/**
 * Only detects dead connections: the engine watches for silence, and knows how long a request may
 * take.
 */
const IDLE_TIMEOUT_MS = 15 * 60_000;

/**
 * More than the engine keeps in flight: leaves room for records and for a second try of a slow
 * part.
 */
const CONNECTIONS_MAX = 128;

/** Longer than any refusal. */
const REFUSAL_BYTES_MAX = 64 * 1024;

/** Proxy Authentication Required. */
const WANTS_LOGIN = 407;

/** Failures of the direct client that `node:http` may tolerate. */
const NEEDS_LENIENCE: readonly string[] = ['BAD_HEAD', 'NOT_NODE'];

/** A request that is ready to be sent, including its credentials. */
export interface TransportRequest {
  readonly protocol: 'http:' | 'https:';
  /** Without brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly method: string;
  /** With the query, encoded. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Secrets in the request. They are removed from a refusal that repeats them. */
  readonly secrets: readonly string[];
  /** Belongs to the transport until the promise settles. */
  readonly body?: Uint8Array | undefined;
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called whenever bytes have moved; not called with `node:http`. */
  readonly onBytes?: (() => void) | undefined;
  /** Buffer for the body of a success; without it the answer holds the body. */
  readonly into?: Into | undefined;
  /** May be sent once more if a kept connection turns out to be closed. */
  readonly isRepeatable?: boolean | undefined;
  /** A larger body is rejected before it is read. */
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
  /** All trusted certificates, in PEM; if omitted: Node's own. */
  readonly ca?: readonly string[] | undefined;
  readonly proxies: Proxies;
  /** Converts an answer without success to the provider's error. `body`: as text. */
  readonly refusalOf: (answer: RefusedAnswer, body: string) => Error;
  /**
   * Secrets that no request holds, but that the server may know: the key that signs requests. They
   * are removed from refusals and errors too. Called for each of these.
   */
  readonly signingSecrets?: () => readonly string[];
  /** Detects a successful answer whose body reports an error, for providers that send those. */
  readonly isRefusedSuccess?: (request: TransportRequest, answer: TransportAnswer) => boolean;
}

export class HttpTransport {
  readonly #direct: DirectHttpClient;
  /** For requests whose bytes lie in memory of these workers. */
  readonly #ofWorkers = new Map<TransferWorkers, WorkerHttp>();
  readonly #options: TransportOptions;
  readonly #queue = new ConnectionQueue(CONNECTIONS_MAX);
  /**
   * By the address of the proxy. The entry without a proxy is for servers that the direct client
   * does not understand.
   */
  readonly #nodeHttp = new Map<string, Promise<NodeHttp>>();
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
   * Sends a request once, when there is a connection for it. Buffers belong to the transport until
   * the promise settles. An answer without success, which includes redirects, is thrown as the
   * result of `refusalOf`. No error repeats a secret of the request. Other errors:
   * - `UnwritableRequest`: nothing was sent.
   * - `InvalidConfig`: the request needs a proxy that cannot be used.
   * - `ProxyRefusal`: the proxy rejected the request.
   */
  async send(request: TransportRequest, options: SendOptions = {}): Promise<TransportAnswer> {
    const proxy = this.#options.proxies.to(request);
    const secretsNow = () => [
      ...[...request.secrets, ...(proxy?.secrets ?? [])],
      ...(this.#options.signingSecrets?.() ?? []),
    ];
    const answer = await this.#queue.run(options.signal, () =>
      this.#exchange(request, options, proxy).catch((error: unknown) => {
        throw unwritableRequest(error, request.headers) ?? told(error, secretsNow());
      }),
    );
    const { status, headers, body } = answer;
    if (status === WANTS_LOGIN) throw new ProxyRefusal(status, proxy?.variable);
    const { refusalOf, isRefusedSuccess } = this.#options;
    if (status >= 200 && status < 300 && isRefusedSuccess?.(request, answer) !== true) return answer;
    const secrets = secretsNow();
    const said = new TextDecoder().decode(body.subarray(0, REFUSAL_BYTES_MAX));
    throw refusalOf(
      { status, headers: concealed(headers, secrets), hasBody: request.method !== 'HEAD' },
      conceal(said, secrets),
    );
  }

  async close(): Promise<void> {
    this.#queue.close();
    for (const nodeHttp of this.#nodeHttp.values()) {
      // A client that could not be made has nothing to close.
      await nodeHttp.then((made) => made.close()).catch(() => undefined);
    }
    await Promise.all(Array.from(this.#ofWorkers.values(), (http) => http.close()));
    await this.#direct.close();
  }

  async #exchange(
    request: TransportRequest,
    { signal, onBytes, into, isRepeatable, bodyBytesMax }: SendOptions,
    proxy: HttpProxy | undefined,
  ): Promise<TransportAnswer> {
    const sent: DirectRequest = { ...request, signal, onBytes, into, isRepeatable, bodyBytesMax };
    if (this.#isLenient || proxy !== undefined) return this.#throughNode(sent, proxy);
    try {
      return await this.#clientFor(sent).request(sent);
    } catch (error) {
      if (!(error instanceof DirectHttpError) || !NEEDS_LENIENCE.includes(error.code)) throw error;
      this.#isLenient = true; // Use `node:http` from now on: it accepts more variants of HTTP.
      if (sent.isRepeatable !== true) throw error;
      return this.#throughNode(sent, undefined);
    }
  }

  #clientFor({ body, into }: DirectRequest): Pick<DirectHttpClient, 'request'> {
    const workers = workersOf(body ?? into?.buffer);
    if (workers === undefined) return this.#direct;
    let http = this.#ofWorkers.get(workers);
    if (http === undefined) {
      const limits = { connectionsMax: CONNECTIONS_MAX, idleTimeoutMs: IDLE_TIMEOUT_MS };
      http = new WorkerHttp(workers, { ...limits, ca: this.#options.ca });
      this.#ofWorkers.set(workers, http);
    }
    return http.isUsable ? http : this.#direct;
  }

  async #throughNode(request: DirectRequest, proxy: HttpProxy | undefined): Promise<TransportAnswer> {
    const name = proxy?.url.reveal() ?? '';
    const nodeHttp = this.#nodeHttp.get(name) ?? nodeHttpTo({ ca: this.#options.ca, proxy });
    this.#nodeHttp.set(name, nodeHttp);
    return (await nodeHttp).request(request);
  }
}

/** Loaded on demand: Node's own client takes 40 ms to load, and few requests need it. */
async function nodeHttpTo(options: ConstructorParameters<typeof NodeHttp>[0]): Promise<NodeHttp> {
  const { NodeHttp } = await import('./node-http.ts');
  return new NodeHttp(options);
}

function concealed(
  headers: Readonly<Record<string, string>>,
  secrets: readonly string[],
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, conceal(value, secrets)]));
}
