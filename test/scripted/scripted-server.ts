/**
 * A server that answers as a test says. It covers replies that no real server can be made to give.
 * The replies typical of each provider are next to the tests of that provider.
 */

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { buffer as readBytes } from 'node:stream/consumers';
import { TLSSocket } from 'node:tls';
import {
  type CallOptions,
  type CheckpointError,
  isCheckpointError,
  type ListOptions,
  type ListPage,
  type ObjectStore,
  type OpenUpload,
} from '@holdfast/core/contract';
import { onTestFinished } from 'vitest';

export interface SeenRequest {
  readonly method: string;
  /** Path and query, as the client sent them. */
  readonly target: string;
  /** Still encoded. */
  readonly path: string;
  /** Still encoded, without its '?'. */
  readonly search: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/**
 * `reset`: the connection breaks after the request has arrived. `silence`: no answer. `raw`: these
 * bytes, then the end.
 */
export type Reply = Answer | 'reset' | 'silence' | { readonly raw: string };

type Framed = (headers: Readonly<Record<string, string>>, body: string) => Reply;

/**
 * Framings in which the end of a response body is marked. Neither framing can show that bytes are
 * missing.
 */
export const FRAMINGS: readonly (readonly [string, Framed])[] = [
  ['its length told', (headers, body) => ({ headers, body })],
  [
    'up to the end of the connection',
    (headers, body) => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      return { raw: `HTTP/1.1 200 OK\r\n${lines.join('')}Connection: close\r\n\r\n${body}` };
    },
  ],
];

/** `index`: number of the request, from 0. */
export type Script = (request: SeenRequest, index: number) => Reply | Promise<Reply>;

export interface ServerOptions {
  /** Speaks TLS, with this certificate and its key, in PEM. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer } | undefined;
  /** `false`: `requests` stays empty, so that bodies are not held until the test ends. */
  readonly keepsRequests?: boolean | undefined;
}

export interface ScriptedServer {
  readonly endpoint: string;
  readonly port: number;
  readonly requests: readonly SeenRequest[];
  readonly connections: number;
  /** How many of `connections` neither side has closed. */
  readonly openConnections: number;
}

/** The error with which a call fails. It must be a `CheckpointError`. */
export async function errorOf(call: Promise<unknown>): Promise<CheckpointError> {
  const error = await call.then(
    () => new Error('it succeeded'),
    (thrown: unknown) => thrown,
  );
  if (!isCheckpointError(error)) throw error;
  return error;
}

/** The first page of a listing without a prefix. */
export async function firstPage(store: ObjectStore): Promise<ListPage | undefined> {
  for await (const page of store.list('')) return page;
  return undefined;
}

export async function allPages(store: ObjectStore, options: ListOptions = {}): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of store.list('', options)) pages.push(page);
  return pages;
}

export async function openUploads(
  store: ObjectStore,
  prefix = '',
  options: CallOptions = {},
): Promise<OpenUpload[]> {
  const uploads: OpenUpload[] = [];
  for await (const upload of store.listUploads?.(prefix, options) ?? []) uploads.push(upload);
  return uploads;
}

/** Gives the replies one after the other, then repeats the last one. */
export function sequence(...replies: readonly (Reply | Script)[]): Script {
  return (request, index) => {
    const reply = replies[Math.min(index, replies.length - 1)] as Reply | Script;
    return typeof reply === 'function' ? reply(request, index) : reply;
  };
}

/** Forwards each request to another server and returns its answer. */
export function passOn(endpoint: string): Script {
  return (request) => forward(new URL(endpoint), request);
}

function forward(server: URL, request: SeenRequest): Promise<Answer> {
  const { hostname, port } = server;
  const { method, target, headers, body } = request;
  return new Promise((resolve, reject) => {
    const onward = httpRequest({ hostname, port, method, path: target, headers }, (response) => {
      readBytes(response).then((bytes) => {
        const { 'transfer-encoding': _, connection: __, ...kept } = response.headers;
        const { statusCode: status = 502 } = response;
        resolve({ status, headers: kept as Record<string, string>, body: bytes });
      }, reject);
    });
    const onError = (error: NodeJS.ErrnoException) => {
      // The server has closed an idle connection before the request reached it.
      const isUnread = onward.reusedSocket && error.code === 'ECONNRESET';
      if (isUnread) resolve(forward(server, request));
      else reject(error);
    };
    onward.once('error', onError).end(body);
  });
}

/** Starts a server for this test, on a free port of the loopback interface. */
export async function scriptedServer(script: Script, options: ServerOptions = {}): Promise<ScriptedServer> {
  const server = await startScriptedServer(script, options);
  onTestFinished(server.stop);
  return server;
}

/** The same for callers that stop it themselves: one server for several tests. */
export async function startScriptedServer(
  script: Script,
  { tls, keepsRequests = true }: ServerOptions = {},
): Promise<ScriptedServer & { stop(): Promise<void> }> {
  const requests: SeenRequest[] = [];
  let count = 0;
  const onSeen = (seen: SeenRequest) => {
    if (keepsRequests) requests.push(seen);
    return count++;
  };
  const sockets = new Set<Socket>();
  let connections = 0;
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    void answer(request, response, { onSeen, script });
  };
  const server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest);
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    // The client may go away at any time.
    socket.on('error', () => socket.destroy());
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    requests,
    get connections() {
      return connections;
    },
    get openConnections() {
      return sockets.size;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { onSeen, script }: { onSeen(seen: SeenRequest): number; script: Script },
): Promise<void> {
  const { socket } = request;
  const seen = await seenRequest(request).catch(() => undefined);
  if (seen === undefined) return;
  const reply = await script(seen, onSeen(seen));
  if (reply === 'silence') return;
  if (reply === 'reset') breakOff(socket);
  else if ('raw' in reply) socket.end(reply.raw, 'latin1');
  else response.writeHead(reply.status ?? 200, withLength(reply)).end(reply.body);
}

/** Node cannot reset a connection that speaks TLS. */
function breakOff(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

function withLength({ headers = {}, body = '' }: Answer): Readonly<Record<string, string>> {
  if ('content-length' in headers || 'transfer-encoding' in headers) return headers;
  return { ...headers, 'content-length': String(Buffer.byteLength(body)) };
}

async function seenRequest(request: IncomingMessage): Promise<SeenRequest> {
  const body = await readBytes(request);
  const { method = '', url: target = '' } = request;
  const [path = '', search = ''] = target.split('?');
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  return { method, target, path, search, query: new URLSearchParams(search), headers, body };
}
