/**
 * A proxy as an organisation runs one: absolute URLs for http, CONNECT for https. No traffic leaves
 * this machine.
 */

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface TestProxy {
  readonly url: string;
  readonly port: number;
  /** Each request it received: a method and a URL, or CONNECT and a host. */
  readonly asked: readonly string[];
  /** The `Proxy-Authorization` header of each request. */
  readonly logins: readonly (string | undefined)[];
}

export interface ProxyOptions {
  /**
   * Port on this machine that every name leads to, also in a tunnel. Without it, a tunnel leads to
   * this machine only.
   */
  readonly portOfAll?: number | undefined;
  /**
   * The proxy answers every request with this status line and headers. `hang up`: it closes the
   * connection without an answer.
   */
  readonly refusal?: ((login: string) => string) | 'hang up' | undefined;
}

/** Starts a proxy for this test. */
export async function startProxy(options: ProxyOptions = {}): Promise<TestProxy> {
  const proxy = await startLastingProxy(options);
  onTestFinished(proxy.stop);
  return proxy;
}

/** The same for callers that stop it themselves: one proxy for several tests. */
export async function startLastingProxy({
  portOfAll,
  refusal,
}: ProxyOptions = {}): Promise<TestProxy & { stop(): Promise<void> }> {
  const asked: string[] = [];
  const logins: (string | undefined)[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => sockets.delete(socket));
  };
  const refuses = ({ method, url, headers }: IncomingMessage, socket: Socket): boolean => {
    asked.push(`${method} ${url}`);
    logins.push(headers['proxy-authorization']);
    if (refusal === 'hang up') socket.destroy();
    else if (refusal !== undefined)
      socket.end(`HTTP/1.1 ${refusal(headers['proxy-authorization'] ?? '')}\r\nContent-Length: 0\r\n\r\n`);
    return refusal !== undefined;
  };
  const server = createServer((request, response) => {
    if (!refuses(request, request.socket)) passOn(request, response, portOfAll);
  });
  server.on('connection', keep);
  server.on('connect', (request: IncomingMessage, client: Socket) => {
    if (!refuses(request, client)) tunnel(request, client, { keep, portOfAll });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, asked, logins, stop };
}

function passOn(request: IncomingMessage, response: ServerResponse, portOfAll: number | undefined): void {
  const to = new URL(request.url ?? '');
  if (portOfAll !== undefined) to.host = `127.0.0.1:${portOfAll}`;
  const { method, headers } = request;
  const onward = httpRequest(to, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  request.pipe(onward);
}

function tunnel(
  request: IncomingMessage,
  client: Socket,
  { keep, portOfAll }: { keep(socket: Socket): void; portOfAll: number | undefined },
): void {
  const [host, port] = (request.url ?? '').split(':');
  if (host !== '127.0.0.1' && portOfAll === undefined) {
    client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    return;
  }
  const onward = connect(portOfAll ?? Number(port), '127.0.0.1', () => {
    client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
    onward.pipe(client).pipe(onward);
  });
  keep(onward);
}
