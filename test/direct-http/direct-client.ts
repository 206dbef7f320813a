/**
 * Shared by the tests of the direct client: requests to a scripted server, guarded memory, and
 * failures.
 */

import { DirectHttpClient, DirectHttpError, type DirectRequest } from '@holdfast/direct-http';
import { type Certificate, makeCertificate } from './certificate.ts';
import type { ScriptedServer } from './scripted-server.ts';

export type ClientOptions = NonNullable<ConstructorParameters<typeof DirectHttpClient>[0]>;

const certificate = makeCertificate('DNS:localhost', 'IP:127.0.0.1', 'IP:::1');

/** For `describe.each`: the client makes the same promises on both. */
export const TRANSPORTS: readonly (readonly [name: string, certificate: Certificate | undefined])[] = [
  ['plain', undefined],
  ['TLS', certificate],
];

export { certificate };

/** A client that trusts the tests' certificate. */
export function makeClient(options: ClientOptions = {}): DirectHttpClient & AsyncDisposable {
  const client = new DirectHttpClient({ tls: { ca: certificate.cert }, ...options });
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

export function get(server: ScriptedServer, changes: Partial<DirectRequest> = {}): DirectRequest {
  const { protocol, hostname, port } = server;
  return { protocol, hostname, port, method: 'GET', path: '/', headers: {}, ...changes };
}

/** The error of a promise that must reject with a `DirectHttpError`. */
export async function failureOf(promise: Promise<unknown>): Promise<DirectHttpError> {
  const outcome: unknown = await promise.then(
    (value) => value,
    (error: unknown) => error,
  );
  if (outcome instanceof DirectHttpError) return outcome;
  throw new Error('expected a DirectHttpError', { cause: outcome });
}

const GUARD = 0xee;
const GUARD_BYTES = 4096;

/** A buffer between guard bytes that no write may change. */
export function guarded(bytes: number) {
  const memory = new Uint8Array(bytes + 2 * GUARD_BYTES).fill(GUARD);
  const buffer = memory.subarray(GUARD_BYTES, GUARD_BYTES + bytes);
  const isGuard = (byte: number) => byte === GUARD;
  return {
    buffer,
    areGuardsWhole: () =>
      memory.subarray(0, GUARD_BYTES).every(isGuard) && memory.subarray(GUARD_BYTES + bytes).every(isGuard),
    isUnchanged: () => memory.every(isGuard),
  };
}

/** A 200 answer with `body`. */
export function ok(body: Uint8Array | string, fields = ''): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n${fields}\r\n`),
    bytes,
  ]);
}

/** Bytes that differ by position. */
export function pattern(bytes: number): Uint8Array {
  const array = new Uint8Array(bytes);
  for (let index = 0; index < bytes; index++) array[index] = index * 31 + (index >> 8);
  return array;
}
