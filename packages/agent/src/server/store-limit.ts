/**
 * A client says in a header how long it waits. If the store does not answer, the agent says so
 * before the client gives up: the client could only tell that the agent was silent.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { CheckpointError } from '@holdfast/core';
import type { CallName } from '../api/calls.ts';

export const LIMIT_HEADER = 'holdfast-timeout-ms';
/** For the way of the answer. */
const ANSWER_MS = 500;

/** They answer once, with what the store says. Others have limits of their own, or ask no store. */
const STORE_CALLS: ReadonlySet<CallName> = new Set<CallName>([
  ...(['join', 'latest', 'versions', 'version', 'file'] as const),
  ...(['annotate', 'pin', 'unpin', 'elect'] as const),
]);

/**
 * What `work` resolves to. `Unavailable`: the answer has not begun shortly before the limit of the
 * client. The work continues, and its result is dropped.
 */
export async function withinLimit<T>(
  work: Promise<T> | T,
  { name, request, response, uri }: LimitedCall,
): Promise<T> {
  const header = request.headers[LIMIT_HEADER];
  if (!STORE_CALLS.has(name) || typeof header !== 'string' || !/^\d{1,9}$/.test(header)) return work;
  const clientMs = Number(header);
  const limitMs = Math.round(clientMs - Math.min(ANSWER_MS, clientMs / 10));
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    // Bytes of a file follow each other, and the client limits each pause.
    if (!response.headersSent) late.reject(silenceOf(name, uri, limitMs));
  }, limitMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

export interface LimitedCall {
  readonly name: CallName;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly uri: string;
}

function silenceOf(name: CallName, uri: string, limitMs: number): CheckpointError {
  const silence = `the store of ${uri} did not answer the agent within ${limitMs} ms`;
  const message =
    name === 'file' ? `${silence}, or other readers of this agent have left no memory for this one` : silence;
  return new CheckpointError('Unavailable', message, { context: { uri } });
}
