/** Toxiproxy: stands before any server and makes the network bad. Where a single byte matters, use the cutting proxy. */

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { goProgram, TOXIPROXY } from './go-program.ts';
import { type RunningServer, startServer } from './start-server.ts';
import type { TestBucket } from './test-bucket.ts';

const REQUEST_TIMEOUT_MS = 10_000;

/** What is done to the bytes of a connection. https://github.com/Shopify/toxiproxy#toxics */
export type ToxicEffect =
  /** Every chunk is late, by `latencyMs` give or take `jitterMs`. */
  | { readonly type: 'latency'; readonly latencyMs: number; readonly jitterMs?: number }
  | { readonly type: 'bandwidth'; readonly kilobytesPerSecond: number }
  /** The end of the connection is late. */
  | { readonly type: 'slow_close'; readonly delayMs: number }
  /** Nothing goes through, and after so long the connection is closed; never, if 0. */
  | { readonly type: 'timeout'; readonly timeoutMs: number }
  /** After so long the connection is reset. */
  | { readonly type: 'reset_peer'; readonly timeoutMs: number }
  /** After so many bytes the connection is closed. */
  | { readonly type: 'limit_data'; readonly bytes: number };

export type Toxic = ToxicEffect & {
  /** What the client sends, or what it is answered. */
  readonly stream: 'upstream' | 'downstream';
  /** How many of the connections have it, from 0 to 1 (if not given). */
  readonly toxicity?: number;
};

export interface ToxicProxy {
  /** To be used in place of the server's: the same but for the port. */
  readonly endpoint: string;
  /** From now on, for connections there are and those to come. The function returned takes it away; safe to call again. */
  add(toxic: Toxic): Promise<() => Promise<void>>;
  /** Takes all toxics away. */
  heal(): Promise<void>;
  /** Ends its connections, and takes no more. */
  remove(): Promise<void>;
}

export interface Toxiproxy extends RunningServer {
  /** A proxy before a server (`http://host:port/…`). */
  proxy(endpoint: string): Promise<ToxicProxy>;
}

/** A Toxiproxy with no proxies of ours; builds it first if need be. See `startServer` for what it may throw. */
export async function startToxiproxy(directory?: string): Promise<Toxiproxy> {
  const binary = await goProgram(TOXIPROXY);
  // It has no credentials that would tell it from another one on this port: it is known by a proxy of this name, which does not run.
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

/** The place as a client finds it through the proxy before its server. */
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

/** One request to its own interface. https://github.com/Shopify/toxiproxy#http-api */
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
