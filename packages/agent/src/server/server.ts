/** HTTP over the socket: limits, token, dispatch, errors. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { CheckpointError, isCheckpointError } from '@holdfast/core';
import type { Agent } from '../agent.ts';
import { HttpProblem, problemOf, statusOf } from '../problem.ts';
import { handlersOf, type Program } from './handlers.ts';
import { assertToken, findCall, readBody, readQuery } from './request.ts';
import { withinLimit } from './store-limit.ts';

const HEADER_BYTES_MAX = 64 * 1024;
/** Time in which a request must have arrived, headers and body. */
const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTIONS_MAX = 1024;

export function serverOf(agent: Agent, program: Program, requestTimeoutMs = REQUEST_TIMEOUT_MS): Server {
  const handlers = handlersOf(program);
  const server = createServer(
    {
      maxHeaderSize: HEADER_BYTES_MAX,
      requestTimeout: requestTimeoutMs,
      headersTimeout: requestTimeoutMs,
      connectionsCheckingInterval: requestTimeoutMs / 10,
    },
    (request, response) => {
      void answer(agent, { handlers, request, response });
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.keepAliveTimeout = 0; // A client keeps its connection between saves.
  return server;
}

async function answer(
  agent: Agent,
  {
    handlers,
    request,
    response,
  }: {
    readonly handlers: ReturnType<typeof handlersOf>;
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
  },
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    assertToken(request, agent.config.token);
    const { name, shape, parameters, query } = findCall(request.method ?? 'GET', request.url ?? '/');
    const asked = {
      ...{ parameters, request, response, signal: gone.signal },
      query: shape.query ? readQuery(shape.query, query) : undefined,
      body: shape.body ? await readBody(shape.body, request) : undefined,
    };
    const work = Promise.resolve(handlers[name](agent, asked));
    const value = await withinLimit(work, { name, request, response, uri: runOf(asked) });
    if (value === undefined || response.headersSent) return;
    if (response.statusCode === 200) response.statusCode = shape.status ?? 200;
    sendJson(response, value);
  } catch (error) {
    fail(response, agent.isStopping ? stopping(error) : error);
  }
}

/** The run that a request is about, without the settings of its store. */
function runOf({ query, body }: { readonly query: unknown; readonly body: unknown }): string {
  const { uri } = { uri: '', ...(query ?? {}), ...(body ?? {}) };
  return uri.replace(/\?.*$/s, '');
}

/**
 * Another agent can do what a stopping one cannot. `isStopping` tells a client to wait for it. A
 * manager that closes ends its calls as `Aborted`.
 */
function stopping(error: unknown): unknown {
  const isClosed = isCheckpointError(error, 'Aborted');
  if (!isClosed && !isCheckpointError(error, 'Unavailable')) return error;
  const why = isClosed ? new CheckpointError('Unavailable', 'the agent stops', { cause: error }) : error;
  return new HttpProblem(503, why, { isStopping: true });
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.statusCode = statusOf(error);
  // The rest of a body that was refused is not read.
  if (error instanceof HttpProblem) response.setHeader('connection', 'close');
  sendJson(response, problemOf(error));
}

function sendJson(response: ServerResponse, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', body.byteLength);
  response.end(body);
}
