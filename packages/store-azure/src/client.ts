/**
 * Connection to one container. Builds and authorizes every request, and corrects requests that were
 * rejected for their version, time or credentials.
 */

import {
  type HttpRefusal,
  type HttpTransport,
  Remedies,
  type Remedy,
  type SendOptions,
  StoreClock,
  serverOf,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import { type Authorization, authorizationOf, secretsOf } from './authorization.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal } from './errors.ts';
import { type Operation, settingHeaders } from './headers.ts';

/** The oldest version that can begin a listing at a key. */
const API_VERSION = '2026-02-06';
/**
 * Used for servers that lack the version above: old emulators, private clouds. The oldest version
 * that knows every tier.
 */
const OLDER_API_VERSION = '2021-12-02';

export interface BlobRequest extends SendOptions {
  readonly operation: Operation;
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  /**
   * Relative to the container. Omitted: the request is about the container. `null`: about the
   * account.
   */
  readonly blob?: string | null | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
}

export class AzureConnection {
  readonly #config: AzureConfig;
  readonly #transport: HttpTransport;
  readonly #authorization: Authorization;
  readonly #headers: ReturnType<typeof settingHeaders>;
  readonly #server: Omit<ReturnType<typeof serverOf>, 'basePath'>;
  /** Path of the account, without a trailing '/'. */
  readonly #basePath: string;
  #apiVersion = API_VERSION;
  readonly #remedies = new Remedies();
  readonly #clock = new StoreClock();

  constructor(config: AzureConfig, transport: HttpTransport) {
    this.#config = config;
    this.#transport = transport;
    this.#authorization = authorizationOf(config);
    this.#headers = settingHeaders(config);
    const { basePath, ...server } = serverOf(new URL(config.endpoint));
    this.#server = server;
    this.#basePath = basePath;
  }

  /** Sends one request. A non-2xx answer is thrown as `AzureRefusal`. */
  send(request: BlobRequest): Promise<TransportAnswer> {
    return this.#remedies.run(
      () => this.#send(request),
      (refusal) => this.#remedyFor(refusal, request.signal),
    );
  }

  /**
   * Authorizes the store to fetch one of our blobs for a copy. Null: the blobs are encrypted with a
   * key that the store would need as well.
   */
  async sourceAccess(
    blob: string,
    signal: AbortSignal | undefined,
  ): Promise<{ url: string; headers: Readonly<Record<string, string>> } | null> {
    const { container, customerKey, endpoint } = this.#config;
    if (customerKey !== undefined) return null;
    const nowMs = this.#clock.now().getTime();
    const { query, headers } = await this.#authorization.forSource({ container, blob, nowMs }, signal);
    const url = new URL(endpoint).origin + this.#pathOf(blob);
    return { url: query === '' ? url : `${url}?${query}`, headers };
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  /** Encoded path, including that of the account. */
  #pathOf(blob: string | null | undefined): string {
    if (blob === null) return `${this.#basePath}/`;
    const container = `${this.#basePath}/${this.#config.container}`;
    return blob === undefined ? container : `${container}/${escapedPath(blob)}`;
  }

  async #send(request: BlobRequest): Promise<TransportAnswer> {
    const { method, body, signal } = request;
    const { path, headers } = await this.#authorization.authorize(
      {
        method,
        path: this.#pathOf(request.blob),
        query: this.#queryOf(request),
        headers: {
          'x-ms-date': this.#clock.now().toUTCString(),
          'x-ms-version': this.#apiVersion,
          ...this.#headers[request.operation],
          ...request.headers,
        },
        bodyBytes: body?.byteLength ?? 0,
      },
      signal,
    );
    const secrets = secretsOf({ path, headers });
    return this.#transport.send({ ...this.#server, method, path, headers, secrets, body }, request);
  }

  /** An older server does not know all parameters, and begins every listing at the beginning. */
  #queryOf({ query = {} }: BlobRequest): Readonly<Record<string, string>> {
    const { startFrom: _, ...known } = query;
    return this.#apiVersion === API_VERSION ? query : known;
  }

  #remedyFor(refusal: HttpRefusal, signal: AbortSignal | undefined): Remedy | undefined {
    if (!(refusal instanceof AzureRefusal)) return undefined;
    const { code, status } = refusal;
    if (isOfVersion(refusal)) return () => this.#lowerVersion();
    if (code === 'AuthenticationFailed' && this.#config.credentials.kind === 'key')
      return () => this.#clock.adjust(refusal);
    return status === 401 ? () => this.#authorization.renew(signal) : undefined;
  }

  #lowerVersion(): boolean {
    const isLower = this.#apiVersion !== OLDER_API_VERSION;
    this.#apiVersion = OLDER_API_VERSION;
    return isLower;
  }
}

/**
 * Azurite names the header only in its message. An answer to HEAD names none, and may be about the
 * version.
 */
function isOfVersion({ code, headerName, message }: AzureRefusal): boolean {
  if (code !== 'InvalidHeaderValue') return false;
  return headerName === 'x-ms-version' || message === '' || /API version/i.test(message);
}

/**
 * Which characters a path may contain unescaped depends on the server. Escaped ones mean the same
 * to all.
 */
function escapedPath(blob: string): string {
  return blob
    .split('/')
    .map((segment) =>
      encodeURIComponent(segment).replace(
        /[!'()*]/g,
        (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
      ),
    )
    .join('/');
}
