import { Readable } from 'node:stream';
import { type HttpTransport, isXmlOf, type RefusedAnswer, type TransportAnswer } from '@holdfast/cloud-http';
import {
  type HttpHandler,
  type HttpHandlerOptions,
  type HttpRequest,
  HttpResponse,
} from '@smithy/core/protocols';
import { foreignSuccess } from './errors.ts';
import { toTransportRequest } from './signed-request.ts';

/** Options of a command. The SDK passes them on unchanged. */
export interface CommandOptions extends HttpHandlerOptions {
  /** Headers of the answer, once there is one; names in lower case. */
  answerHeaders?: Readonly<Record<string, string>>;
  /** The request only reads, so that it can always be sent again. */
  isRead?: boolean;
  /** The transport's error, unchanged: the SDK adds fields to errors. */
  transportError?: { readonly error: unknown };
}

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

/**
 * Transport to services that issue credentials (STS, single sign-on). Their refusals are
 * `RefusedCredentials`.
 */
export class CredentialsRequestHandler implements HttpHandler {
  /** Signal of the pending callers. The SDK passes none on. */
  signal: AbortSignal | undefined;
  readonly #transport: HttpTransport;

  constructor(transport: HttpTransport) {
    this.#transport = transport;
  }

  async handle(request: HttpRequest): Promise<{ response: HttpResponse }> {
    const { signal } = this;
    const { status, headers, body } = await this.#transport
      .send(toTransportRequest(request), { signal })
      .catch((error: unknown) => {
        if (error instanceof RefusedCredentials)
          return { ...error.answer, body: new TextEncoder().encode(error.body) };
        throw error;
      });
    return {
      response: new HttpResponse({
        statusCode: status,
        headers: { ...headers },
        body: Readable.from([body]),
      }),
    };
  }

  updateHttpClientConfig(): void {
    // The store's URI alone configures the transport.
  }

  httpHandlerConfigs(): Record<string, never> {
    return {};
  }
}

/**
 * The store's transport in the form that the SDK expects. The transport throws refusals, so the SDK
 * sees only successful answers.
 */
export class SdkRequestHandler implements HttpHandler {
  readonly #transport: HttpTransport;

  constructor(transport: HttpTransport) {
    this.#transport = transport;
  }

  async handle(request: HttpRequest, options: CommandOptions = {}): Promise<{ response: HttpResponse }> {
    const answer = await this.#send(request, options).catch((error: unknown) => {
      options.transportError = { error };
      throw error;
    });
    options.answerHeaders = answer.headers;
    const { status: statusCode, headers, body } = answer;
    return {
      response: new HttpResponse({ statusCode, headers: { ...headers }, body: Readable.from([body]) }),
    };
  }

  async #send(request: HttpRequest, options: CommandOptions): Promise<TransportAnswer> {
    const signal = options.abortSignal as AbortSignal | undefined;
    options.isRead = request.method === 'GET';
    const answer = await this.#transport.send(toTransportRequest(request), { signal });
    if (!hasExpectedForm(request, answer)) throw foreignSuccess(answer);
    return answer;
  }

  updateHttpClientConfig(): void {
    // The store's URI alone configures the transport.
  }

  httpHandlerConfigs(): Record<string, never> {
    return {};
  }
}

/**
 * S3 answers our commands with XML whose root is called "…Result", or after a setting of the
 * bucket. Only deletions may have an empty answer. So a web server that sends one page for
 * everything is not taken for an empty bucket. A truncated answer is not taken for a complete one.
 */
function hasExpectedForm({ method, query }: HttpRequest, { headers, body }: TransportAnswer): boolean {
  if (method === 'HEAD') return headers['x-amz-request-id'] !== undefined;
  if (method === 'DELETE' || (body.byteLength === 0 && 'delete' in query)) return true;
  const isOfStore = headers['x-amz-request-id'] !== undefined;
  return isXmlOf(new TextDecoder().decode(body), rootsOf(method, query), isOfStore);
}

/** A listing must not be taken for another one: it would show nothing. */
function rootsOf(method: string, query: HttpRequest['query']): RegExp {
  if (method === 'GET' && 'list-type' in query) return /^(\w+:)?ListBucketResult$/;
  if (method === 'GET' && 'uploads' in query) return /^(\w+:)?ListMultipartUploadsResult$/;
  return /(Result|Configuration|PolicyStatus)$/;
}
