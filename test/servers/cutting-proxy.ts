/**
 * A proxy that counts the bytes of every request and reply. It cuts the connection after as many
 * bytes as a test says.
 */

import { createServer, type Socket } from 'node:net';
import { type CutPoint, type Exchange, ProxiedConnection } from './proxied-connection.ts';

export type { CutPoint, Exchange };

export interface CutOptions {
  /** Selects a request by its head and the start of its body. */
  readonly when: (request: Exchange) => boolean;
  /** How many requests that match `when` pass before the cut. */
  readonly skip?: number;
  readonly after: CutPoint;
}

/** A cut applies to one request. Nothing is cut if the request or its reply has fewer bytes. */
export interface Cut {
  /** The request that was cut, or `undefined` if none was cut yet. */
  readonly exchange: Exchange | undefined;
  /** Cancels the cut: later requests are not cut. */
  cancel(): void;
}

export interface CuttingProxyOptions {
  /**
   * How many bytes of a body the proxy reads before it forwards a request, so that `when` can look
   * at them. Default: 0.
   */
  readonly bodyStartBytes?: number;
}

export interface CuttingProxy {
  /** Use it in place of the server's endpoint. Only the port differs. */
  readonly endpoint: string;
  /**
   * Ordered by the time at which the head of the request and the start of its body were complete.
   */
  readonly exchanges: readonly Exchange[];
  /** Several cuts may wait at once. If two match a request, the first one applies. */
  cut(options: CutOptions): Cut;
  /** Ends all connections. Rejects if the proxy received bytes that it cannot parse. */
  stop(): Promise<void>;
}

class PendingCut implements Cut {
  exchange: Exchange | undefined;
  readonly #options: CutOptions;
  #skip: number;
  #isWaiting = true;

  constructor(options: CutOptions) {
    this.#options = options;
    this.#skip = options.skip ?? 0;
  }

  /** The point to cut this request at, or `undefined` if this cut does not apply to it. */
  take(request: Exchange): CutPoint | undefined {
    if (!this.#isWaiting || !this.#options.when(request)) return undefined;
    if (this.#skip-- > 0) return undefined;
    this.#isWaiting = false;
    return this.#options.after;
  }

  cancel(): void {
    this.#isWaiting = false;
  }
}

/**
 * Forwards HTTP/1.1 to `endpoint` (http://host:port/…), byte for byte. It recognises where requests
 * begin and end, so connections may be kept alive. Pipelining is not supported: a client must not
 * send a request before the reply to the last one.
 */
export async function startCuttingProxy(
  endpoint: string,
  { bodyStartBytes = 0 }: CuttingProxyOptions = {},
): Promise<CuttingProxy> {
  const { hostname, port, protocol, pathname } = new URL(endpoint);
  if (protocol !== 'http:') throw new Error(`${endpoint}: only http can be looked into`);
  const exchanges: Exchange[] = [];
  const cuts: PendingCut[] = [];
  const sockets = new Set<Socket>();
  const faults: unknown[] = [];

  const onRequest = (exchange: Exchange) => {
    exchanges.push(exchange);
    for (const cut of cuts) {
      const after = cut.take(exchange);
      if (after === undefined) continue;
      const onCut = () => {
        cut.exchange = exchange;
      };
      return { after, onCut };
    }
    return undefined;
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const onFault = (error: unknown) => faults.push(error);
    const connection = new ProxiedConnection(client, {
      host: hostname,
      port: Number(port),
      onRequest,
      bodyStartBytes,
      onFault,
    });
    for (const socket of connection.sockets) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const address = server.address() as { port: number };
  return {
    endpoint: `http://127.0.0.1:${address.port}${pathname === '/' ? '' : pathname}`,
    exchanges,
    cut: (options) => {
      const cut = new PendingCut(options);
      cuts.push(cut);
      return cut;
    },
    stop: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
      if (faults.length > 0) throw faults[0];
    },
  };
}
