/** The OpenAPI document, from the same table that drives the server. */

import * as z from 'zod';
import { CALLS, type CallShape } from './calls.ts';
import { problem } from './shapes.ts';

type Json = Readonly<Record<string, unknown>>;

const REFERENCE = '#/components/schemas/';
const TYPES = {
  text: 'text/plain',
  bytes: 'application/octet-stream',
  lines: 'application/x-ndjson',
  document: 'application/json',
} as const;

export function openApi(version: string): Json {
  const schemas: Record<string, Json> = {};
  const paths: Record<string, Record<string, Json>> = {};
  for (const [name, call] of Object.entries(CALLS) as [string, CallShape][]) {
    const at = paths[call.path] ?? {};
    paths[call.path] = { ...at, [call.method.toLowerCase()]: operation(name, call, schemas) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Holdfast agent', version, license: { name: 'Apache-2.0' } },
    paths,
    components: { schemas, securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}

function operation(name: string, call: CallShape, schemas: Record<string, Json>): Json {
  const { status = 200, summary, path, query, body, answer } = call;
  const json = (shape: z.ZodType, io: 'input' | 'output') => ({
    'application/json': { schema: schemaOf(shape, io, schemas) },
  });
  return {
    operationId: name,
    summary,
    parameters: [...pathParameters(path), ...(query ? queryParameters(query) : [])],
    ...(body && { requestBody: { required: true, content: json(body, 'input') } }),
    responses: {
      [status]: {
        description: 'Done.',
        content: typeof answer === 'string' ? { [TYPES[answer]]: {} } : json(answer, 'output'),
      },
      default: {
        description: 'An error; `code` is one of docs/errors.md.',
        content: json(problem, 'output'),
      },
    },
  };
}

function pathParameters(path: string): Json[] {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
}

function queryParameters(query: z.ZodType): Json[] {
  const { properties = {}, required = [] } = schemaOf(query, 'input', {}) as {
    properties?: Record<string, Json>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: 'query', schema },
    required: required.includes(name),
  }));
}

/** A shape with a name goes to `schemas`, and so do those inside it. */
function schemaOf(shape: z.ZodType, io: 'input' | 'output', schemas: Record<string, Json>): Json {
  const text = JSON.stringify(z.toJSONSchema(shape, { io })).replaceAll('#/$defs/', REFERENCE);
  const {
    $schema: _,
    $defs = {},
    id,
    ...schema
  } = JSON.parse(text) as Json & { $defs?: Record<string, Json> };
  for (const [name, { id: __, ...part }] of Object.entries($defs)) schemas[name] = part;
  if (typeof id !== 'string') return schema;
  schemas[id] = schema;
  return { $ref: `${REFERENCE}${id}` };
}
