/**
 * Sends requests by `node:http`: slower than the direct client, more lenient, and able to use a
 * proxy.
 */

import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { abortError, CheckpointError } from '@holdfast/core/contract';
import { DirectHttpError, type DirectRequest, type DirectResponse, planBody } from '@holdfast/direct-http';
import { type HttpProxy, ProxyRefusal } from './proxy.ts';

export interface NodeHttpOptions {
  readonly ca?: readonly string[] | undefined;
  /** All requests go through it. */
  readonly proxy?: HttpProxy | undefined;
  /** Whether this Node supports proxies. Default: detected. */
  readonly knowsProxies?: boolean | undefined;
}

const IDLE_TIMEOUT_MS = 60_000;
/** Memory of one request beyond the caller's body. */
const PIECE_BYTES = 256 * 1024;

export class NodeHttp {
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  readonly #proxy: HttpProxy | undefined;

  /** Throws `InvalidConfig` if this Node would bypass the proxy. */
  constructor({ ca, proxy, knowsProxies = nodeKnowsProxies() }: NodeHttpOptions) {
    if (proxy !== undefined && !knowsProxies) throw unknownToNode(proxy);
    this.#proxy = proxy;
    const url = proxy?.url.reveal();
    const proxyEnv = url === undefined ? {} : { HTTP_PROXY: url, HTTPS_PROXY: url };
    const agent = { keepAlive: true, proxyEnv, timeout: IDLE_TIMEOUT_MS };
    this.#http = new HttpAgent(agent);
    this.#https = new HttpsAgent({ ...agent, ...(ca !== undefined && { ca: [...ca] }) });
  }

  /** Fills the buffer under the same conditions as the direct client, at the cost of a copy. */
  async request(request: DirectRequest): Promise<DirectResponse> {
    const { signal } = request;
    try {
      const message = await this.#send(request);
      const { statusCode: status = 0 } = message;
      const headers = plainHeaders(message);
      return { status, headers, isReused: false, ...(await receive(message, status, headers, request)) };
    } catch (error) {
      throw signal?.aborted ? abortError(signal) : this.#judged(error);
    }
  }

  /** Recognises a proxy's refusal to open a tunnel. */
  #judged(error: unknown): unknown {
    const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
    if (code !== 'ERR_PROXY_TUNNEL' || typeof statusCode !== 'number') return error;
    return new ProxyRefusal(statusCode, this.#proxy?.variable);
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  #send({
    protocol,
    hostname,
    port,
    method,
    path,
    headers,
    body,
    signal,
  }: DirectRequest): Promise<IncomingMessage> {
    const options = {
      hostname,
      port,
      method,
      path,
      headers: { ...headers, ...(body !== undefined && { 'content-length': String(body.byteLength) }) },
      ...(signal !== undefined && { signal }),
    };
    return new Promise((resolve, reject) => {
      const outgoing =
        protocol === 'https:'
          ? requestHttps({ ...options, agent: this.#https })
          : requestHttp({ ...options, agent: this.#http });
      sendBody(outgoing, body ?? new Uint8Array(0));
      outgoing
        .once('response', resolve)
        .once('error', reject)
        .once('timeout', () => {
          outgoing.destroy(
            new DirectHttpError('TIMED_OUT', `no byte arrived for ${IDLE_TIMEOUT_MS / 1000} s`, {
              phase: 'head',
            }),
          );
        });
    });
  }
}

/**
 * Sends copies of the body, piece by piece as the socket takes them. After an abort or an answer
 * the memory belongs to the caller again, while the socket may still hold a piece.
 */
function sendBody(outgoing: ClientRequest, body: Uint8Array): void {
  let sentBytes = 0;
  let isOver = false;
  const stop = () => {
    isOver = true;
  };
  outgoing.once('response', stop).once('close', stop);
  const send = () => {
    while (!isOver && sentBytes < body.byteLength) {
      const piece = Buffer.from(body.subarray(sentBytes, sentBytes + PIECE_BYTES));
      sentBytes += piece.byteLength;
      if (outgoing.write(piece)) continue;
      outgoing.once('drain', send);
      return;
    }
    if (!isOver) outgoing.end();
  };
  send();
}

/** Node has this flag exactly in the versions whose agents support a proxy. */
function nodeKnowsProxies(): boolean {
  return process.allowedNodeEnvironmentFlags.has('--use-env-proxy');
}

function unknownToNode({ variable }: HttpProxy): CheckpointError {
  const what = `${variable} names a proxy, and this Node (${process.version}) cannot use one`;
  return new CheckpointError('InvalidConfig', `${what}; use Node 22.21, 24.5 or newer`);
}

function plainHeaders({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

/** Places the body where the direct client would, and rejects what it would reject. */
async function receive(
  stream: IncomingMessage,
  status: number,
  headers: Readonly<Record<string, string>>,
  request: DirectRequest,
): Promise<Pick<DirectResponse, 'body' | 'bytesInto'>> {
  try {
    return await placeBody(stream, status, headers, request);
  } catch (error) {
    stream.destroy();
    throw error;
  }
}

async function placeBody(
  stream: IncomingMessage,
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
      throw new DirectHttpError(plan.codeIfLarger, `the body has more than ${plan.bytesMax} bytes`, {
        phase: 'body',
      });
    chunks.push(chunk);
  }
  return { body: Buffer.concat(chunks), bytesInto: undefined };
}

async function fill(destination: Uint8Array, stream: IncomingMessage): Promise<number> {
  let sizeBytes = 0;
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    destination.set(chunk, sizeBytes);
    sizeBytes += chunk.byteLength;
  }
  return sizeBytes;
}
