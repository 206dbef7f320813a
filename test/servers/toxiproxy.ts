/**
 * Toxiproxy: simulates a bad network in front of any server. For cuts at an exact byte, use the
 * cutting proxy.
 */

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { goProgram, TOXIPROXY } from './go-program.ts';
import { type RunningServer, startServer } from './start-server.ts';
import type { TestBucket } from './test-bucket.ts';

const REQUEST_TIMEOUT_MS = 10_000;

/** Effect on the bytes of a connection. https://github.com/Shopify/toxiproxy#toxics */
export type ToxicEffect =
  /** Every chunk is delayed by `latencyMs`, plus or minus `jitterMs`. */
  | { readonly type: 'latency'; readonly latencyMs: number; readonly jitterMs?: number }
  | { readonly type: 'bandwidth'; readonly kilobytesPerSecond: number }
  /** The end of the connection is delayed. */
  | { readonly type: 'slow_close'; readonly delayMs: number }
  /** No bytes pass. The connection is closed after this time, or never if it is 0. */
  | { readonly type: 'timeout'; readonly timeoutMs: number }
  /** The connection is reset after this time. */
  | { readonly type: 'reset_peer'; readonly timeoutMs: number }
  /** The connection is closed after this many bytes. */
  | { readonly type: 'limit_data'; readonly bytes: number };

export type Toxic = ToxicEffect & {
  /** `upstream`: what the client sends. `downstream`: what the server answers. */
  readonly stream: 'upstream' | 'downstream';
  /** Share of the connections that have the toxic, from 0 to 1. Default: 1. */
  readonly toxicity?: number;
};

export interface ToxicProxy {
  /** Use it in place of the server's endpoint. Only the port differs. */
  readonly endpoint: string;
  /**
   * Applies at once, to existing and new connections. The function returned removes the toxic. It
   * is safe to call again.
   */
  add(toxic: Toxic): Promise<() => Promise<void>>;
  /** Removes all toxics. */
  heal(): Promise<void>;
  /** Ends the connections of the proxy and accepts no more. */
  remove(): Promise<void>;
}

export interface Toxiproxy extends RunningServer {
  /** A proxy in front of a server (`http://host:port/…`). */
  proxy(endpoint: string): Promise<ToxicProxy>;
}

/**
 * Starts Toxiproxy without proxies, and builds it first if needed. See `startServer` for its
 * errors.
 */
export async function startToxiproxy(directory?: string): Promise<Toxiproxy> {
  const binary = await goProgram(TOXIPROXY);
  // Toxiproxy has no credentials that identify it among programs on this port. It is recognised by
  // a disabled proxy with this name.
  const mark = `mark-${randomBytes(6).toString('hex')}`;
  const config = [{ name: mark, listen: '127.0.0.1:0', upstream: '127.0.0.1:1', enabled: false }];
  const server = await startServer({
    title: TOXIPROXY.title,
    parentDirectory: directory,
    prepare: (place) => writeFile(join(place, 'proxies.json'), JSON.stringify(config)),
    command: (place) => ({
      words: [
        ...[binary, '-host', '127.0.0.1', '-port', `${place.port}`],
        ...['-config', join(place.directory, 'proxies.json')],
      ],
      env: { LOG_LEVEL: 'warn' },
    }),
    isReady: async ({ port }) => {
      await ask(port, 'GET', `/proxies/${mark}`);
      return true;
    },
  });
  return { ...server, proxy: (endpoint) => createProxy(server.port, endpoint) };
}

/** The same place, reached through the proxy in front of its server. */
export function throughProxy(place: TestBucket, { endpoint }: { readonly endpoint: string }): TestBucket {
  const [root = '', search = ''] = place.uri.split('?');
  const query = new URLSearchParams(search);
  query.set('endpoint', endpoint);
  return { ...place, uri: `${root}?${query}`, endpoint };
}

async function createProxy(port: number, endpoint: string): Promise<ToxicProxy> {
  const url = new URL(endpoint);
  const name = `proxy-${randomBytes(6).toString('hex')}`;
  const wish = { name, listen: '127.0.0.1:0', upstream: url.host, enabled: true };
  const { listen } = (await ask(port, 'POST', '/proxies', wish)) as { listen: string };
  const remove = (path: string) => ask(port, 'DELETE', `/proxies/${name}${path}`);
  const toxics = new Set<string>();
  const take = async (toxic: string) => {
    if (toxics.delete(toxic)) await remove(`/toxics/${toxic}`);
  };
  return {
    endpoint: `${url.protocol}//${listen}${url.pathname === '/' ? '' : url.pathname}`,
    add: async (toxic) => {
      const toxicName = `toxic-${randomBytes(6).toString('hex')}`;
      await ask(port, 'POST', `/proxies/${name}/toxics`, { name: toxicName, ...toxicOf(toxic) });
      toxics.add(toxicName);
      return () => take(toxicName);
    },
    heal: async () => {
      await Promise.all([...toxics].map(take));
    },
    remove: async () => {
      await remove('');
    },
  };
}

function toxicOf(toxic: Toxic): object {
  const { type, stream, toxicity = 1 } = toxic;
  return { type, stream, toxicity, attributes: attributesOf(toxic) };
}

function attributesOf(effect: ToxicEffect): object {
  switch (effect.type) {
    case 'latency':
      return { latency: effect.latencyMs, jitter: effect.jitterMs ?? 0 };
    case 'bandwidth':
      return { rate: effect.kilobytesPerSecond };
    case 'slow_close':
      return { delay: effect.delayMs };
    case 'timeout':
    case 'reset_peer':
      return { timeout: effect.timeoutMs };
    case 'limit_data':
      return { bytes: effect.bytes };
  }
}

/** One request to Toxiproxy's API. https://github.com/Shopify/toxiproxy#http-api */
async function ask(port: number, method: string, path: string, wish?: object): Promise<unknown> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    ...(wish && { body: JSON.stringify(wish), headers: { 'content-type': 'application/json' } }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} was answered with ${answer.status}: ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}
