/** A proxy as an organisation has one: absolute URLs for http, CONNECT for https. Nothing leaves this machine. */

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface TestProxy {
  readonly url: string;
  readonly port: number;
  /** What it was asked for: a method and a URL, or CONNECT and a host. */
  readonly asked: readonly string[];
  /** What it was told of who asks. */
  readonly logins: readonly (string | undefined)[];
}

export interface ProxyOptions {
  /** Where it finds every name, on this machine. */
  readonly portOfAll?: number | undefined;
  /** It answers so, status line and headers, instead of doing what it is asked; `hang up`: not at all. */
  readonly refusal?: ((login: string) => string) | 'hang up' | undefined;
}

export async function startProxy({ portOfAll, refusal }: ProxyOptions = {}): Promise<TestProxy> {
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
    if (!refuses(request, client)) tunnel(request, client, keep);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, asked, logins };
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

function tunnel(request: IncomingMessage, client: Socket, keep: (socket: Socket) => void): void {
  const [host, port] = (request.url ?? '').split(':');
  if (host !== '127.0.0.1') {
    client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    return;
  }
  const onward = connect(Number(port), host, () => {
    client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
    onward.pipe(client).pipe(onward);
  });
  keep(onward);
}
