/** A server that answers as a test says: what no server of S3 can be made to do. It checks the signature of all it is asked. */

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { buffer as readBytes } from 'node:stream/consumers';
import {
  type CheckpointError,
  isCheckpointError,
  type ListOptions,
  type ListPage,
  type ObjectStore,
} from '@holdfast/core/contract';
import { openS3Store } from '@holdfast/store-s3';
import { onTestFinished } from 'vitest';
import { signatureFault } from './signature-fault.ts';

export interface SeenRequest {
  readonly method: string;
  /** Path and query, as they were sent. */
  readonly target: string;
  /** Still encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** What is wrong with its signature, if anything. */
  readonly signatureFault: string | undefined;
}

export interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** `reset`: the request has come, and then the connection breaks. `silence`: no answer. `raw`: these bytes, then the end. */
export type Reply = Answer | 'reset' | 'silence' | { readonly raw: string };

/** `index`: of the request, from 0. */
export type Script = (request: SeenRequest, index: number) => Reply | Promise<Reply>;

export interface ScriptedS3 {
  readonly endpoint: string;
  readonly port: number;
  readonly requests: readonly SeenRequest[];
  readonly connections: number;
  /** Of a bucket here; `settings` are those of the URI. */
  uri(settings?: Readonly<Record<string, string>>): string;
  /** A store on it, closed when the test ends. */
  open(
    settings?: Readonly<Record<string, string>>,
    env?: Readonly<Record<string, string>>,
  ): Promise<ObjectStore>;
}

export const KEYS = {
  AWS_ACCESS_KEY_ID: 'AKIDSCRIPTED',
  AWS_SECRET_ACCESS_KEY: 'secret-of-the-scripted-server',
  AWS_EC2_METADATA_DISABLED: 'true',
} as const;

/** What a call fails with, which is to be an error of ours. */
export async function errorOf(call: Promise<unknown>): Promise<CheckpointError> {
  const error = await call.then(
    () => new Error('it succeeded'),
    (thrown: unknown) => thrown,
  );
  if (!isCheckpointError(error)) throw error;
  return error;
}

/** What a listing of everything begins with. */
export async function firstPage(store: ObjectStore): Promise<ListPage | undefined> {
  for await (const page of store.list('')) return page;
  return undefined;
}

export async function allPages(store: ObjectStore, options: ListOptions = {}): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of store.list('', options)) pages.push(page);
  return pages;
}

/** One answer after the other; the last one again and again. */
export function sequence(...replies: readonly (Reply | Script)[]): Script {
  return (request, index) => {
    const reply = replies[Math.min(index, replies.length - 1)] as Reply | Script;
    return typeof reply === 'function' ? reply(request, index) : reply;
  };
}

/** An error as S3 sends it. `extra`: more elements and headers. */
export function refusal(
  status: number,
  code: string,
  extra: { xml?: string; headers?: Readonly<Record<string, string>>; message?: string } = {},
): Answer {
  const { xml = '', headers = {}, message = `told ${code}` } = extra;
  return {
    status,
    headers: { 'content-type': 'application/xml', 'x-amz-request-id': 'REQ1', ...headers },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>${xml}</Error>`,
  };
}

export const CREATED: Answer = { status: 200, headers: { etag: '"e1"' } };

/** An object as GET and HEAD show it; HEAD leaves the body out by itself. */
export function object(body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Answer {
  return {
    status: 200,
    headers: {
      etag: '"e1"',
      'last-modified': 'Sat, 21 Nov 2026 10:00:00 GMT',
      ...headers,
    },
    body,
  };
}

/** An empty page of a listing, or one with these keys. */
export function listing(...keys: readonly string[]): Answer {
  const entries = keys.map(
    (key) =>
      `<Contents><Key>${key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>3</Size></Contents>`,
  );
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>runs</Name><KeyCount>${keys.length}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`;
  return { status: 200, headers: { 'content-type': 'application/xml' }, body };
}

/** Answers to the requests of an upload in parts that goes well. */
export const uploadGoesWell: Script = ({ method, query }) => {
  if (method === 'POST' && query.has('uploads'))
    return {
      body: '<InitiateMultipartUploadResult><UploadId>UPLOAD-1</UploadId></InitiateMultipartUploadResult>',
    };
  if (method === 'PUT') return { headers: { etag: `"part-${query.get('partNumber')}"` } };
  if (method === 'GET')
    return { body: '<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>' };
  if (method === 'DELETE') return { status: 204 };
  return { body: '<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>' };
};

/** Lets another server answer, as if the client had asked it. */
export function passOn(endpoint: string): Script {
  const { hostname, port } = new URL(endpoint);
  return ({ method, target, headers, body }) =>
    new Promise((resolve, reject) => {
      const onward = httpRequest({ hostname, port, method, path: target, headers }, (response) => {
        readBytes(response).then((bytes) => {
          const { 'transfer-encoding': _, connection: __, ...kept } = response.headers;
          const { statusCode: status = 502 } = response;
          resolve({ status, headers: kept as Record<string, string>, body: bytes });
        }, reject);
      });
      onward.once('error', reject).end(body);
    });
}

/** The secret of an access key id. */
export type SecretOf = (accessKeyId: string) => string;

const secretOfKeys: SecretOf = (accessKeyId) =>
  accessKeyId === KEYS.AWS_ACCESS_KEY_ID ? KEYS.AWS_SECRET_ACCESS_KEY : `secret-of-${accessKeyId}`;

export interface ScriptedOptions {
  readonly secretOf?: SecretOf;
  /** Speaks TLS, with this certificate and its key, in PEM. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer };
}

/** Starts one for this test. A request whose signature is wrong is answered as S3 does. */
export async function scriptedS3(script: Script, options: ScriptedOptions = {}): Promise<ScriptedS3> {
  const { secretOf = secretOfKeys, tls } = options;
  const requests: SeenRequest[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    void answer(request, response, { requests, script, secretOf });
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
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const endpoint = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const uri = (settings: Readonly<Record<string, string>> = {}) =>
    `s3://runs/gpt?${new URLSearchParams({ endpoint, region: 'us-east-1', ...settings })}`;
  return {
    endpoint,
    port,
    requests,
    get connections() {
      return connections;
    },
    uri,
    async open(settings, env = {}) {
      const store = await openS3Store(uri(settings), { ...KEYS, ...env });
      onTestFinished(() => store.close());
      return store;
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { requests, script, secretOf }: { requests: SeenRequest[]; script: Script; secretOf: SecretOf },
): Promise<void> {
  const { socket } = request;
  const seen = await seenRequest(request, secretOf).catch(() => undefined);
  if (seen === undefined) return;
  const index = requests.length;
  requests.push(seen);
  const reply =
    seen.signatureFault === undefined
      ? await script(seen, index)
      : refusal(403, 'SignatureDoesNotMatch', { message: seen.signatureFault });
  if (reply === 'silence') return;
  if (reply === 'reset') socket.resetAndDestroy();
  else if ('raw' in reply) socket.end(reply.raw, 'latin1');
  else response.writeHead(reply.status ?? 200, withLength(reply)).end(reply.body);
}

function withLength({ headers = {}, body = '' }: Answer): Readonly<Record<string, string>> {
  if ('content-length' in headers || 'transfer-encoding' in headers) return headers;
  return { ...headers, 'content-length': String(Buffer.byteLength(body)) };
}

async function seenRequest(request: IncomingMessage, secretOf: SecretOf): Promise<SeenRequest> {
  const body = await readBytes(request);
  const { method = '', url: target = '' } = request;
  const [path = '', search = ''] = target.split('?');
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  const fault = signatureFault({ method, path, search, headers, body }, secretOf);
  return { method, target, path, query: new URLSearchParams(search), headers, body, signatureFault: fault };
}
