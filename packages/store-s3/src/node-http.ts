/** The SDK's own handler, on `node:http`: slower, more lenient, and able to go through a proxy. */

import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Readable } from 'node:stream';
import { abortError } from '@holdfast/core/contract';
import { DirectHttpError, type DirectRequest, type DirectResponse, planBody } from '@holdfast/direct-http';
import { HttpRequest } from '@smithy/core/protocols';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import type { ProxyEnvironment } from './config.ts';

export interface NodeHttpOptions {
  readonly ca?: readonly string[] | undefined;
  readonly proxy: ProxyEnvironment;
  readonly connectionsMax: number;
}

export class NodeHttp {
  readonly #handler: NodeHttpHandler;

  constructor({ ca, proxy, connectionsMax }: NodeHttpOptions) {
    const agent = { keepAlive: true, maxSockets: connectionsMax, proxyEnv: proxy };
    this.#handler = new NodeHttpHandler({
      httpAgent: new HttpAgent(agent),
      httpsAgent: new HttpsAgent({ ...agent, ...(ca !== undefined && { ca: [...ca] }) }),
      connectionTimeout: 10_000,
      socketTimeout: 60_000,
    });
  }

  /** Fills the buffer under the same conditions as the direct client, at the price of a copy. */
  async request(signed: HttpRequest, request: DirectRequest): Promise<DirectResponse> {
    const { body, signal } = request;
    const copy = HttpRequest.clone(signed);
    // After an abort the socket may go on reading a body for a while, and the caller's memory is not ours any more.
    copy.body = body === undefined ? undefined : Buffer.from(body);
    const { response } = await this.#handler.handle(
      copy,
      signal === undefined ? {} : { abortSignal: signal },
    );
    const stream = response.body as Readable;
    const { statusCode: status, headers } = response;
    try {
      return { status, headers, isReused: false, ...(await receive(stream, status, headers, request)) };
    } catch (error) {
      stream.destroy();
      throw signal?.aborted ? abortError(signal) : error;
    }
  }

  close(): void {
    this.#handler.destroy();
  }
}

/** Places the body where the direct client would, and refuses what it would refuse. */
async function receive(
  stream: Readable,
  status: number,
  headers: Readonly<Record<string, string>>,
  request: DirectRequest,
): Promise<Pick<DirectResponse, 'body' | 'bytesInto'>> {
  const length = headers['content-length'];
  const plan = planBody(
    {
      status,
      headers,
      contentLengthBytes: length === undefined ? undefined : Number(length),
      isChunked: length === undefined,
      keepsAlive: false,
      keepAliveMs: undefined,
    },
    request,
  );
  if (plan.kind === 'fill') {
    const sizeBytes = await fill(plan.destination, stream);
    const isWhole = sizeBytes === plan.destination.byteLength;
    if (!isWhole)
      throw new DirectHttpError('CLOSED_EARLY', `the answer ends after ${sizeBytes} bytes`, {
        phase: 'body',
      });
    return plan.isInto
      ? { body: new Uint8Array(0), bytesInto: sizeBytes }
      : { body: plan.destination, bytesInto: undefined };
  }
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > plan.bytesMax)
      throw new DirectHttpError('TOO_LARGE', `the body has more than ${plan.bytesMax} bytes`, {
        phase: 'body',
      });
    chunks.push(chunk);
  }
  return { body: Buffer.concat(chunks), bytesInto: undefined };
}

async function fill(destination: Uint8Array, stream: Readable): Promise<number> {
  let sizeBytes = 0;
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    destination.set(chunk, sizeBytes);
    sizeBytes += chunk.byteLength;
  }
  return sizeBytes;
}
