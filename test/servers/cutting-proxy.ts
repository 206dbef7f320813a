/** A proxy that counts the bytes of every request and reply, and cuts the connection after as many as a test says. */

import { createServer, type Socket } from 'node:net';
import { type CutPoint, type Exchange, ProxiedConnection } from './proxied-connection.ts';

export type { CutPoint, Exchange };

export interface CutOptions {
  /** Looks at the head of a request, and at the start of its body. */
  readonly when: (request: Exchange) => boolean;
  /** Of the requests for which `when` holds, how many are let through first. */
  readonly skip?: number;
  readonly after: CutPoint;
}

/** Concerns one request; nothing is cut if that or its reply has fewer bytes. */
export interface Cut {
  /** The request that was cut; nothing as long as none was. */
  readonly exchange: Exchange | undefined;
  /** No request to come is cut. */
  cancel(): void;
}

export interface CuttingProxyOptions {
  /** For how much of a body it waits before it passes a request on, so that `when` can look at it. 0 if not given. */
  readonly bodyStartBytes?: number;
}

export interface CuttingProxy {
  /** To be used in place of the server's: the same but for the port. */
  readonly endpoint: string;
  /** In the order in which the heads of the requests, and the starts of their bodies, were complete. */
  readonly exchanges: readonly Exchange[];
  /** Several may wait at once; of two that fit a request, the first takes it. */
  cut(options: CutOptions): Cut;
  /** Ends all connections. Rejects if something came through that the proxy does not understand. */
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

  /** Where to cut this request, if it is the one. */
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
 * Passes HTTP/1.1 on to `endpoint` (http://host:port/…), byte for byte. It understands where requests begin and end, so a connection may be
 * kept alive; a client that sends the next request before it has the reply to the last is not supported.
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
