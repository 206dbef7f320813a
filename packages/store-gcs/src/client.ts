/** Connection to one server: its address, the token, and the headers of all requests. */

import {
  type HttpTransport,
  Remedies,
  type SendOptions,
  secretsOfQuery,
  serverOf,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import type { GcsConfig } from './config.ts';
import { defaultTokens, type Tokens } from './credentials.ts';
import { type SettingHeaders, settingHeaders } from './headers.ts';

export interface GcsRequest extends SendOptions {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Below the endpoint, encoded; starts with '/'. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Uint8Array | undefined;
}

export class GcsConnection {
  readonly settings: SettingHeaders;
  readonly #transport: HttpTransport;
  readonly #tokens: Tokens | undefined;
  readonly #ofTokens: HttpTransport;
  readonly #remedies = new Remedies();
  readonly #server: ReturnType<typeof serverOf>;
  readonly #customerKey: string | undefined;

  /**
   * `ofTokens`: transport to the server that issues tokens; its refusals are `RefusedToken`.
   */
  constructor(config: GcsConfig, transport: HttpTransport, ofTokens: HttpTransport) {
    this.settings = settingHeaders(config);
    this.#transport = transport;
    this.#ofTokens = ofTokens;
    this.#tokens = config.auth ? defaultTokens(config.tokensFrom, ofTokens) : undefined;
    this.#server = serverOf(new URL(config.endpoint));
    this.#customerKey = config.customerKey?.reveal();
  }

  /**
   * Sends one request. A non-2xx answer is thrown as `HttpRefusal`. A request whose token was
   * rejected had no effect, and is sent once more with a new token.
   */
  send(request: GcsRequest): Promise<TransportAnswer> {
    let token: string | undefined;
    const send = async () => {
      token = await this.#tokens?.current(request.signal);
      return this.#sendWith(token, request);
    };
    const renew = async () =>
      token !== undefined && (await this.#tokens?.renew(token, request.signal)) !== token;
    return this.#remedies.run(send, ({ status }) => (status === 401 ? renew : undefined));
  }

  async close(): Promise<void> {
    await Promise.all([this.#transport.close(), this.#ofTokens.close()]);
  }

  #sendWith(token: string | undefined, request: GcsRequest): Promise<TransportAnswer> {
    const { method, path, query, headers, body, ...options } = request;
    const search = queryText(query);
    const { basePath, ...server } = this.#server;
    return this.#transport.send(
      {
        ...server,
        method,
        path: `${basePath}${path}${search === '' ? '' : `?${search}`}`,
        headers: {
          ...this.settings.always,
          ...headers,
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        secrets: [token, this.#customerKey, ...secretsOfQuery(query)].filter(
          (secret) => secret !== undefined,
        ),
        body,
      },
      options,
    );
  }
}

function queryText(query: GcsRequest['query'] = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return new URLSearchParams(given).toString();
}
