import type { LookupFunction } from 'node:net';
import type { SecureContext, SecureContextOptions } from 'node:tls';
import { clientClosed, toDirectHttpError } from './errors.ts';
import { Exchange } from './exchange.ts';
import type { DirectRequest, DirectResponse } from './message.ts';
import { Origin } from './origin.ts';
import { hostHeader, writeRequestHead } from './request-head.ts';
import { type ClientSettings, type DirectHttpOptions, settingsOf } from './settings.ts';
import { tls } from './tls.ts';

/**
 * HTTP/1.1 client with its own connections, which receive a body directly into the caller's buffer,
 * without a stream or a copy. Connections are reused, the last used first. Idle ones do not keep
 * the process alive. It supports no proxies, and runs only on Node. Each request is sent once, an
 * `isRepeatable` one at most twice.
 */
export class DirectHttpClient {
  readonly #settings: ClientSettings;
  readonly #lookup: LookupFunction | undefined;
  readonly #ca: string | readonly string[] | undefined;
  readonly #origins = new Map<string, Origin>();
  #secureContext: SecureContext | undefined;
  #closing: Promise<void> | undefined;

  /** Throws `RangeError` if a number in `options` is invalid. */
  constructor(options: DirectHttpOptions = {}) {
    this.#settings = settingsOf(options);
    this.#lookup = options.lookup;
    this.#ca = options.tls?.ca;
  }

  /**
   * Resolves to the answer, whatever its status. Rejects with `DirectHttpError`. Once the promise
   * has settled, `body` is no longer read and `into.buffer` no longer written.
   */
  request(request: DirectRequest): Promise<DirectResponse> {
    try {
      const origin = this.#originOf(request);
      const exchange = new Exchange(request, writeRequestHead(request, origin.host));
      if (this.#closing !== undefined) exchange.reject(clientClosed());
      else if (request.signal?.aborted) exchange.reject(exchange.abortError('queue', 0));
      else origin.run(exchange);
      return exchange.promise;
    } catch (error) {
      return Promise.reject(toDirectHttpError(error, 'queue', 0));
    }
  }

  /** Connections opened so far, failed attempts included. */
  get connectionsOpened(): number {
    let count = 0;
    for (const origin of this.#origins.values()) count += origin.connectionsOpened;
    return count;
  }

  /**
   * Fails pending requests with `CLIENT_CLOSED`; resolves when every socket is closed. Safe to
   * repeat.
   */
  close(): Promise<void> {
    this.#closing ??= Promise.all(Array.from(this.#origins.values(), (origin) => origin.close())).then(
      () => undefined,
    );
    return this.#closing;
  }

  #originOf(request: DirectRequest): Origin {
    const { protocol, hostname, port } = request;
    const key = `${protocol}//${hostname}:${port}`;
    const known = this.#origins.get(key);
    if (known !== undefined) return known;
    const host = hostHeader(request);
    // All TLS connections share one secure context: it holds the trusted certificates, which take
    // long to parse.
    if (protocol === 'https:')
      this.#secureContext ??= tls().createSecureContext(secureContextOptions(this.#ca));
    const secureContext = protocol === 'https:' ? this.#secureContext : undefined;
    const endpoint = { protocol, hostname, port, lookup: this.#lookup, secureContext, session: undefined };
    const origin = new Origin(endpoint, host, this.#settings);
    this.#origins.set(key, origin);
    return origin;
  }
}

function secureContextOptions(ca: string | readonly string[] | undefined): SecureContextOptions {
  return ca === undefined ? {} : { ca: typeof ca === 'string' ? ca : [...ca] };
}
