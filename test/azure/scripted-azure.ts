/**
 * A server that answers as a test says, for cases that no Azure server can be made to produce. It
 * checks the signature of every request.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { openAzureStore } from '@holdfast/store-azure';
import { onTestFinished } from 'vitest';
import {
  type Answer,
  type Script,
  type ScriptedServer,
  type SeenRequest,
  type ServerOptions,
  scriptedServer,
} from '../scripted/scripted-server.ts';
import { type AzureMemory, azureMemory, type MemoryOptions, refusal } from './azure-memory.ts';
import { sharedKeyFault } from './shared-key-fault.ts';

export { refusal } from './azure-memory.ts';

export interface ScriptedAzure extends ScriptedServer {
  /** The URI of a container on this server, with these settings. */
  uri(settings?: Readonly<Record<string, string>>): string;
  /** A store on it, closed when the test ends. */
  open(
    settings?: Readonly<Record<string, string>>,
    env?: Readonly<Record<string, string>>,
  ): Promise<ObjectStore>;
}

export const ACCOUNT = {
  account: 'scripted',
  key: Buffer.from('the key of the scripted account').toString('base64'),
} as const;

export const KEYS = { AZURE_STORAGE_ACCOUNT: ACCOUNT.account, AZURE_STORAGE_KEY: ACCOUNT.key } as const;

export const CREATED: Answer = {
  status: 201,
  headers: { 'x-ms-request-id': 'REQ1', etag: '"e1"', 'last-modified': 'Sat, 21 Nov 2026 10:00:00 GMT' },
};

/** A blob as GET and HEAD return it. The server omits the body for HEAD. */
export function blob(body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status: 200, headers: { ...CREATED.headers, ...headers }, body };
}

/** A page of a listing with these names. */
export function listing(names: readonly string[], nextMarker = ''): Answer {
  const blobs = names.map(
    (name) =>
      `<Blob><Name>${name}</Name><Properties><Last-Modified>Sat, 21 Nov 2026 10:00:00 GMT</Last-Modified><Etag>e</Etag><Content-Length>3</Content-Length></Properties></Blob>`,
  );
  const body = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>${blobs.join('')}</Blobs><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`;
  return { status: 200, headers: { 'content-type': 'application/xml', 'x-ms-request-id': 'REQ1' }, body };
}

/** Starts a server for this test. It rejects a request with a wrong key signature as Azure does. */
export async function scriptedAzure(script: Script, options: ServerOptions = {}): Promise<ScriptedAzure> {
  const server = await scriptedServer(async (request, index) => {
    const isSigned = request.headers['authorization']?.startsWith('SharedKey ') === true;
    const fault = isSigned ? await sharedKeyFault(request, ACCOUNT) : undefined;
    if (fault !== undefined) return refusal(403, 'AuthenticationFailed', { message: fault });
    return script(request, index);
  }, options);
  const { endpoint } = server;
  const uri = (settings: Readonly<Record<string, string>> = {}) =>
    `az://${ACCOUNT.account}/runs/gpt?${new URLSearchParams({ endpoint, ...settings })}`;
  return {
    endpoint,
    port: server.port,
    requests: server.requests,
    get connections() {
      return server.connections;
    },
    get openConnections() {
      return server.openConnections;
    },
    uri,
    async open(settings, env = KEYS) {
      const store = await openAzureStore(uri(settings), env);
      onTestFinished(() => store.close());
      return store;
    },
  };
}

/**
 * A server that stores what it receives. `script` answers first, and its `pass` lets the memory
 * answer.
 */
export async function azureInMemory(
  options: MemoryOptions = {},
  script?: (request: SeenRequest, pass: () => Answer, index: number) => ReturnType<Script>,
  server: ServerOptions = {},
): Promise<ScriptedAzure & { memory: AzureMemory }> {
  const memory = azureMemory(options);
  const azure = await scriptedAzure((request, index) => {
    const pass = () => memory.answer(request);
    return script === undefined ? pass() : script(request, pass, index);
  }, server);
  return Object.assign(azure, { memory });
}
