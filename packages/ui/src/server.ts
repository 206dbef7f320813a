/** The server behind the page: HTTP on this machine, or HTTPS for others. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { CheckpointError, type Clock, type RunManager, toCheckpointError } from '@holdfast/core/contract';
import type { Session } from './api.ts';
import { CALLS, changeCall, type UiSession } from './calls.ts';
import { Fleet } from './fleet.ts';
import { type Guard, isLoopback, policyOf, refusalOf, securityHeaders, urlHost } from './guards.ts';
import { problemOf } from './rows.ts';
import { Runs } from './runs.ts';

const REQUEST_TIMEOUT_MS = 30_000;
const BODY_BYTES_MAX = 64 * 1024;
/** A page that is opened at once is answered first. */
const READ_AHEAD_AFTER_MS = 300;

export interface UiOptions {
  readonly session: UiSession;
  /** Fills what URIs leave open. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** The page, as `readPage` returns it. */
  readonly page: string;
  /** At least 16 characters that fit a URL. */
  readonly token: string;
  readonly host: string;
  /** 0: a free port. */
  readonly port: number;
  /** A certificate with its chain, and its private key, in PEM. */
  readonly tls: string | null;
  readonly clock: Clock;
  readonly open: (uri: string) => Promise<RunManager>;
  /** The answer of an agent to `GET /v1/status`. Absent: no page of an agent is offered. */
  readonly askAgent?: (() => Promise<unknown>) | undefined;
}

export interface RunningUi {
  /** With the token in its fragment, which browsers do not send. */
  readonly url: string;
  readonly port: number;
  /** Ends open requests. Safe to repeat. */
  close(): Promise<void>;
}

/**
 * Serves until `close`. `InvalidArgument`: the port is taken, the address is not one of this
 * machine, or other machines could connect without TLS.
 */
export async function startUi(options: UiOptions): Promise<RunningUi> {
  const { host, port, token, tls, session } = options;
  if (!isLoopback(host) && tls === null)
    throw new CheckpointError('InvalidArgument', `${host} is reached by other machines, so it needs TLS`);
  const { uris } = session;
  const fleet = new Fleet({ ...options, places: uris, env: options.env });
  const runs = new Runs({ ...options, uris, isFound: (uri) => fleet.isFound(uri) });
  const handler = new Handler(options, { runs, fleet });
  const server = serverOf(tls, (request, response) => void handler.handle(request, response));
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  await listen(server, host, port);
  const { port: bound } = server.address() as AddressInfo;
  const scheme = tls === null ? 'http' : 'https';
  handler.guard = { scheme, host, port: bound, token };
  const readingAhead = setTimeout(() => void handler.readAhead(), READ_AHEAD_AFTER_MS);
  return {
    url: `${scheme}://${urlHost(host)}:${bound}/#token=${token}`,
    port: bound,
    close: async () => {
      clearTimeout(readingAhead);
      const isClosed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      fleet.close();
      await Promise.all([isClosed, runs.close()]);
    },
  };
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

function serverOf(tls: string | null, listener: Listener): Server {
  if (tls === null) return createServer(listener);
  try {
    return createTlsServer({ cert: tls, key: tls }, listener);
  } catch (error) {
    const message = `the TLS file must have a certificate and its private key in PEM: ${(error as Error).message}`;
    throw new CheckpointError('InvalidArgument', message, { cause: error });
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: Error & { code?: string }) => {
      const why = error.code === 'EADDRINUSE' ? 'another program uses it' : error.message;
      const message = `cannot serve ${host} port ${port}: ${why}`;
      reject(new CheckpointError('InvalidArgument', message, { cause: error }));
    });
    server.listen(port, host, () => resolve());
  });
}

const STATUS: Readonly<Record<string, number>> = {
  InvalidArgument: 400,
  Denied: 403,
  NotFound: 404,
  Conflict: 409,
  Unavailable: 503,
  Throttled: 503,
};

/** A body that is not JSON by its type may come from a form of another page. */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  if (request.headers['content-type'] !== 'application/json')
    throw new CheckpointError('InvalidArgument', 'the body must be application/json');
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_BYTES_MAX)
      throw new CheckpointError('InvalidArgument', `the body must have at most ${BODY_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw new CheckpointError('InvalidArgument', 'the body is not JSON', { cause: error });
  }
}

interface Shared {
  readonly runs: Runs;
  readonly fleet: Fleet;
}

class Handler {
  guard: Guard | null = null;
  readonly #options: UiOptions;
  readonly #shared: Shared;
  #home: Promise<Session['home']> | null = null;
  #wasAsked = false;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #zippedPage: Buffer;

  constructor(options: UiOptions, shared: Shared) {
    this.#options = options;
    this.#shared = shared;
    this.#headers = securityHeaders(policyOf(options.page));
    this.#zippedPage = gzipSync(options.page);
  }

  /** Reads a single run before its page is opened: a long one takes half a second. */
  async readAhead(): Promise<void> {
    if (this.#wasAsked || (await this.#findHomeOnce()) !== 'run') return;
    const [uri = ''] = this.#options.session.uris;
    try {
      await (await this.#shared.runs.reader(uri)).view();
    } catch {
      // The page says why it cannot be read.
    }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#wasAsked = true;
    const end = new AbortController();
    response.once('close', () => end.abort());
    const { method = '', url = '/' } = request;
    // More slashes become one: after two, the rest would be read as the name of a host.
    const asked = URL.parse(url.replace(/^\/+/, '/'), 'http://page');
    if (asked === null)
      return this.#sendJson(response, 400, { code: 'InvalidArgument', message: 'no address' });
    const { pathname: path, searchParams } = asked;
    const refusal = refusalOf({ method, path, headers: request.headers }, this.guard as Guard);
    if (refusal !== null) {
      this.#sendJson(response, refusal.status, { code: 'Denied', message: refusal.message });
      return;
    }
    if (path === '/') return this.#sendPage(request, response);
    try {
      const { session } = this.#options;
      const home = () => this.#findHomeOnce();
      const { askAgent = null } = this.#options;
      const context = { session, home, askAgent, ...this.#shared, signal: end.signal };
      const call = Object.hasOwn(CALLS, path) ? CALLS[path] : undefined;
      if (call === undefined && path !== '/api/change')
        throw new CheckpointError('NotFound', 'there is no such call');
      const answer = await (call?.(searchParams, context) ?? changeCall(await bodyOf(request), context));
      this.#sendJson(response, 200, answer);
    } catch (error) {
      const { code } = toCheckpointError(error);
      this.#sendJson(response, STATUS[code] ?? 500, problemOf(error));
    }
  }

  #findHomeOnce(): Promise<Session['home']> {
    this.#home ??= this.#findHome();
    return this.#home;
  }

  /**
   * A single operand is a run, or a place above runs. A store that does not answer may be either.
   */
  async #findHome(): Promise<Session['home']> {
    const { uris } = this.#options.session;
    const [uri] = uris;
    if (uri === undefined) return 'agent';
    if (uris.length > 1) return 'fleet';
    try {
      const reader = await this.#shared.runs.reader(uri);
      return (await reader.hasRun()) ? 'run' : 'fleet';
    } catch {
      this.#home = null;
      return 'run';
    }
  }

  #sendPage(request: IncomingMessage, response: ServerResponse): void {
    const isZipped = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
    response.writeHead(200, {
      ...this.#headers,
      'content-type': 'text/html; charset=utf-8',
      ...(isZipped && { 'content-encoding': 'gzip' }),
    });
    response.end(isZipped ? this.#zippedPage : this.#options.page);
  }

  #sendJson(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { ...this.#headers, 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  }
}
