/**
 * Requests of the SDK to services that issue credentials (STS, single sign-on), over our transport.
 */

import { Readable } from 'node:stream';
import {
  bareHostname,
  type HttpTransport,
  type RefusedAnswer,
  type TransportRequest,
} from '@holdfast/cloud-http';
import { queryText, secretsOf } from './signature.ts';

/**
 * A service refused to issue credentials. It carries the status and the service's text, which the
 * SDK reads.
 */
export class RefusedCredentials extends Error {
  readonly answer: RefusedAnswer;
  readonly body: string;

  constructor(answer: RefusedAnswer, body: string) {
    super(`HTTP ${answer.status}`);
    this.name = 'RefusedCredentials';
    this.answer = answer;
    this.body = body;
  }
}

/** What the SDK asks a transport to send. */
interface SdkRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number | undefined;
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | readonly string[] | null>> | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

interface SdkAnswer {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: Readable;
}

/** In the form that the SDK expects. Refusals of the services are answers to the SDK. */
export class CredentialsRequestHandler {
  /** Signal of the pending callers. The SDK passes none on. */
  signal: AbortSignal | undefined;
  readonly #transport: HttpTransport;

  constructor(transport: HttpTransport) {
    this.#transport = transport;
  }

  async handle(request: SdkRequest): Promise<{ response: SdkAnswer }> {
    const { signal } = this;
    const { status, headers, body } = await this.#transport
      .send(toTransportRequest(request), { signal })
      .catch((error: unknown) => {
        if (error instanceof RefusedCredentials)
          return { ...error.answer, body: new TextEncoder().encode(error.body) };
        throw error;
      });
    return { response: { statusCode: status, headers: { ...headers }, body: Readable.from([body]) } };
  }

  updateHttpClientConfig(): void {
    // The store's URI alone configures the transport.
  }

  httpHandlerConfigs(): Record<string, never> {
    return {};
  }
}

function toTransportRequest(request: SdkRequest): TransportRequest {
  const protocol = request.protocol === 'http:' ? 'http:' : 'https:';
  const pairs = Object.entries(request.query ?? {}).flatMap(([name, values]) =>
    [values ?? ''].flat().map((value) => [name, value] as const),
  );
  const query = queryText(pairs);
  return {
    protocol,
    hostname: bareHostname(request.hostname),
    port: request.port ?? (protocol === 'http:' ? 80 : 443),
    method: request.method,
    path: query === '' ? request.path : `${request.path}?${query}`,
    headers: request.headers,
    secrets: secretsOf(request.headers),
    body: bytesOf(request.body),
  };
}

/** The SDK asks for credentials with short texts. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body === null || body instanceof Uint8Array) return body ?? undefined;
  if (typeof body === 'string') return new TextEncoder().encode(body);
  throw new TypeError(`a request's body is bytes or text, not ${typeof body}`);
}
