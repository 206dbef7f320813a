/** Finds the call of a request, and checks what it brings. */

import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CheckpointError } from '@holdfast/core';
import type * as z from 'zod';
import { CALLS, type CallName, type CallShape } from '../api/calls.ts';
import { BODY_BYTES_MAX } from '../api/shapes.ts';
import { HttpProblem } from '../problem.ts';

export interface FoundCall {
  readonly name: CallName;
  readonly shape: CallShape;
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
}

const SHAPES = Object.entries(CALLS).map(([name, shape]) => ({
  name: name as CallName,
  shape: shape as CallShape,
  segments: shape.path.split('/'),
}));

/** 404: no such path. 405: another method has it. */
export function findCall(method: string, target: string): FoundCall {
  const url = parseTarget(target);
  const segments = url.pathname.split('/');
  const here = SHAPES.filter((one) => matches(one.segments, segments));
  const found = here.find(({ shape }) => shape.method === method);
  if (found) {
    const parameters = parametersOf(found.segments, segments);
    return { name: found.name, shape: found.shape, parameters, query: url.searchParams };
  }
  if (here.length > 0) {
    const methods = here.map(({ shape }) => shape.method).join(', ');
    throw refused(405, `${url.pathname} takes ${methods}, not ${method}`);
  }
  throw refused(404, `this agent has no ${url.pathname}; /openapi.json lists all calls`);
}

/** 401 unless the request brings the token. */
export function assertToken(request: IncomingMessage, token: string | undefined): void {
  if (token === undefined) return;
  const given = Buffer.from(request.headers.authorization ?? '');
  const wanted = Buffer.from(`Bearer ${token}`);
  if (given.byteLength === wanted.byteLength && timingSafeEqual(given, wanted)) return;
  const message = 'this agent needs its token: Authorization: Bearer TOKEN';
  throw new HttpProblem(401, new CheckpointError('Denied', message));
}

/** The values of the query, by its shape. */
export function readQuery(shape: z.ZodType, query: URLSearchParams): unknown {
  const names = [...query.keys()];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw refused(400, `the query names ${twice} twice`);
  return checked(shape, Object.fromEntries(query), 'the query');
}

export async function readBody(shape: z.ZodType, request: IncomingMessage): Promise<unknown> {
  const text = await readText(request);
  let value: unknown;
  try {
    value = JSON.parse(text === '' ? '{}' : text, withoutProto);
  } catch (error) {
    if (error instanceof HttpProblem) throw error;
    throw refused(400, `the body is not JSON: ${(error as Error).message}`);
  }
  return checked(shape, value, 'the body');
}

/** Objects that are copied name by name would lose it without a word. */
function withoutProto(name: string, value: unknown): unknown {
  if (name === '__proto__') throw refused(400, 'the body has the name "__proto__", which is not accepted');
  return value;
}

async function readText(request: IncomingMessage): Promise<string> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > BODY_BYTES_MAX) throw tooLarge();
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > BODY_BYTES_MAX) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function checked(shape: z.ZodType, value: unknown, what: string): unknown {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues
    .slice(0, 5)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`));
  throw refused(400, `${what} is not accepted: ${problems.join('; ')}`);
}

function parseTarget(target: string): URL {
  try {
    return new URL(target, 'http://agent');
  } catch {
    throw refused(400, 'the target of the request is not a path');
  }
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false;
  return pattern.every((one, index) => one.startsWith('{') || one === segments[index]);
}

function parametersOf(pattern: readonly string[], segments: readonly string[]): Record<string, string> {
  const pairs = pattern.map((one, index) => [one, segments[index] ?? ''] as const);
  const named = pairs.filter(([one]) => one.startsWith('{'));
  return Object.fromEntries(named.map(([one, value]) => [one.slice(1, -1), value]));
}

function tooLarge(): HttpProblem {
  return refused(413, `the body has more than ${BODY_BYTES_MAX} bytes`);
}

function refused(status: number, message: string): HttpProblem {
  return new HttpProblem(status, new CheckpointError('InvalidArgument', message));
}
