/** Asks the agent of this machine. */

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import type { StatusView } from '@holdfast/agent';
import { CheckpointError, ERROR_CODES, type ErrorCode } from '@holdfast/core/contract';
import { fileError } from '@holdfast/local-files';
import type { JsonObject } from '../json.ts';
import type { Environment } from '../sourced.ts';
import { trustedSocket } from './trusted-socket.ts';

const TIMEOUT_MS = 10_000;

/**
 * The answer to a GET. `Unavailable`: no agent answers. `Denied`, `InvalidConfig`: it demands
 * another token. `InvalidConfig`: another user could be behind the socket, so nothing is sent.
 * `InvalidArgument`: another program answers.
 */
export async function askAgent(socketPath: string, path: string, env: Environment): Promise<JsonObject> {
  const trusted = trustedSocket(socketPath, env);
  const token = readToken(env['HOLDFAST_AGENT_TOKEN_FILE']);
  const { status, text } = await get(
    { socketPath, trusted },
    path,
    token ? { authorization: `Bearer ${token}` } : {},
  );
  const answer = parse(text);
  if (answer === undefined || (status !== 200 && !isProblem(answer))) throw noAgentThere(socketPath);
  if (status === 200) return answer;
  const { code, message } = answer as unknown as Problem;
  const advice = status === 401 ? ['set HOLDFAST_AGENT_TOKEN_FILE to the file with its token'] : undefined;
  throw new CheckpointError(code, `the agent at ${socketPath} refuses: ${message}`, { context: { advice } });
}

/** What an agent does. Errors as of `askAgent`. */
export async function agentStatus(socketPath: string, env: Environment): Promise<StatusView & JsonObject> {
  const answer = await askAgent(socketPath, '/v1/status', env);
  const { writers, newest, stage, memory } = answer;
  const isOfAgent = [writers, newest].every(Array.isArray) && [stage, memory].every(isObject);
  if (!isOfAgent) throw noAgentThere(socketPath);
  return answer as StatusView & JsonObject;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function noAgentThere(path: string): CheckpointError {
  const message = `${path} is not the socket of an agent: it does not answer as one`;
  return new CheckpointError('InvalidArgument', message, { context: { path } });
}

interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
}

function isProblem({ code }: JsonObject): boolean {
  return typeof code === 'string' && Object.hasOwn(ERROR_CODES, code);
}

function readToken(file: string | undefined): string | undefined {
  if (!file) return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw fileError(error, `read ${file}`, { path: file });
  }
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

function get(
  { socketPath, trusted }: { readonly socketPath: string; readonly trusted: string },
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const refuse = (error: Error & { code?: string }) => reject(noAgent(socketPath, error));
    const asked = request({ socketPath: trusted, path, headers, timeout: TIMEOUT_MS }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', refuse);
      response.once('end', () =>
        resolve({ status: response.statusCode, text: Buffer.concat(chunks).toString('utf8') }),
      );
    });
    asked.once('timeout', () => asked.destroy(new Error('it does not answer in time')));
    asked.once('error', refuse);
    asked.end();
  });
}

const ADVICE = ['`holdfast agent` starts one; if one runs, name its socket: `--socket PATH`'];

function noAgent(path: string, error: Error & { code?: string }): CheckpointError {
  if (error.code === 'EACCES') return fileError(error, `connect to ${path}`, { path });
  const why: Record<string, string> = { ENOENT: 'there is no socket', ECONNREFUSED: 'it has ended' };
  const message = `no agent answers at ${path}: ${why[error.code ?? ''] ?? error.message}`;
  return new CheckpointError('Unavailable', message, { context: { path, advice: ADVICE }, cause: error });
}
