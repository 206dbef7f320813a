/**
 * A Google Cloud Storage in this process whose answers a test can change. It produces cases that
 * neither the real one nor an emulator can.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { openGcsStore } from '@holdfast/store-gcs';
import { onTestFinished } from 'vitest';
import {
  type Reply,
  type ScriptedServer,
  type SeenRequest,
  type ServerOptions,
  scriptedServer,
} from '../scripted/scripted-server.ts';
import { BUCKET, FakeGcs } from './fake-gcs.ts';

export interface ScriptedGcs extends ScriptedServer {
  readonly fake: FakeGcs;
  /** The URI of the bucket, with these settings. Uploads work as on the real one. */
  uri(settings?: Readonly<Record<string, string>>): string;
  /** A store on it, closed when the test ends. */
  open(
    settings?: Readonly<Record<string, string>>,
    env?: Readonly<Record<string, string>>,
  ): Promise<ObjectStore>;
}

/** `index` counts requests from 0. The fake answers if the script returns nothing. */
export type GcsScript = (
  request: SeenRequest,
  fake: FakeGcs,
  index: number,
) => Reply | undefined | Promise<Reply | undefined>;

/** Starts one for this test. */
export async function scriptedGcs(
  script: GcsScript = () => undefined,
  options: ServerOptions = {},
): Promise<ScriptedGcs> {
  const fake = new FakeGcs();
  const server = await scriptedServer(
    async (request, index) => (await script(request, fake, index)) ?? fake.answer(request),
    options,
  );
  const uri = (settings: Readonly<Record<string, string>> = {}) =>
    `gs://${BUCKET}/gpt?${new URLSearchParams({ endpoint: server.endpoint, uploads: 'multipart', ...settings })}`;
  return {
    endpoint: server.endpoint,
    port: server.port,
    requests: server.requests,
    get connections() {
      return server.connections;
    },
    get openConnections() {
      return server.openConnections;
    },
    fake,
    uri,
    async open(settings, env = {}) {
      const store = await openGcsStore(uri(settings), env);
      onTestFinished(() => store.close());
      return store;
    },
  };
}

/** The request takes effect, and the client sees this reply. */
export function afterEffect(reply: Reply): GcsScript {
  return (request, fake) => {
    fake.answer(request);
    return reply;
  };
}

/** Applies the script to matching requests. The fake answers the others. */
export function onlyFor(matches: (request: SeenRequest) => boolean, script: GcsScript | Reply): GcsScript {
  return (request, fake, index) => {
    if (!matches(request)) return undefined;
    return typeof script === 'function' ? script(request, fake, index) : script;
  };
}

/** Kinds of requests. */
export const isInsert = ({ path }: SeenRequest): boolean => path.startsWith('/upload/');
export const isMetadata = ({ method, path }: SeenRequest): boolean =>
  method === 'GET' && /^\/storage\/v1\/b\/[^/]+\/o\/./.test(path);
export const isRead = ({ path }: SeenRequest): boolean => path.startsWith('/download/');
export const isList = ({ method, path }: SeenRequest): boolean => method === 'GET' && path.endsWith('/o');
export const isBegin = ({ query }: SeenRequest): boolean => query.has('uploads');
export const isPart = ({ method, query }: SeenRequest): boolean =>
  method === 'PUT' && query.has('partNumber');
export const isComplete = ({ method, query }: SeenRequest): boolean =>
  method === 'POST' && query.has('uploadId');
export const isCompose = ({ path }: SeenRequest): boolean => path.endsWith('/compose');
