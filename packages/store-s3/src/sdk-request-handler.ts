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

/** What a command is sent with. The SDK hands it on as it is. */
export interface CommandOptions extends HttpHandlerOptions {
  /** Of the answer, once there is one; names in lower case. */
  answerHeaders?: Readonly<Record<string, string>>;
  /** The request only reads, so that it may be sent again whatever became of it. */
  isRead?: boolean;
  /** What the transport failed with, as it is: the SDK hangs things on errors. */
  transportError?: { readonly error: unknown };
}

/** What refuses credentials has said so, with a status and in its own words: the SDK reads them. */
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
 * A transport, whose refusals are `RefusedCredentials`, for services that give credentials: STS,
 * single sign-on.
 */
export class CredentialsRequestHandler implements HttpHandler {
  /** Of those who ask now: the SDK hands none on. */
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
    // The transport is configured by the store's URI alone.
  }

  httpHandlerConfigs(): Record<string, never> {
    return {};
  }
}

/**
 * The store's transport as the SDK wants it. A refusal is thrown by the transport, so the SDK sees
 * only answers of success.
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
    if (!hasExpectedForm(request, answer)) throw foreignSuccess(answer.status, answer.headers);
    return answer;
  }

  updateHttpClientConfig(): void {
    // The transport is configured by the store's URI alone.
  }

  httpHandlerConfigs(): Record<string, never> {
    return {};
  }
}

/**
 * What S3 answers to our commands is XML whose root is called "…Result", or after a setting of the
 * bucket; only deletions may be answered with nothing. A web server that has the same page for
 * everything must not pass for an empty bucket, nor what is left of an answer that was cut off for
 * a whole one.
 */
function hasExpectedForm({ method, query }: HttpRequest, { headers, body }: TransportAnswer): boolean {
  if (method === 'HEAD') return headers['x-amz-request-id'] !== undefined;
  if (method === 'DELETE' || (body.byteLength === 0 && 'delete' in query)) return true;
  const isOfStore = headers['x-amz-request-id'] !== undefined;
  return isXmlOf(new TextDecoder().decode(body), /(Result|Configuration|PolicyStatus)$/, isOfStore);
}
