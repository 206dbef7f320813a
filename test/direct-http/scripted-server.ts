/** A server on loopback that sends exactly the bytes of a test, even if they violate HTTP. */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import type { Certificate } from './certificate.ts';

/** The server's end of one connection. */
export class Peer {
  /** Over TLS, the decrypted stream. */
  readonly socket: Socket;
  /** Over TLS, the encrypted connection. */
  readonly connection: Socket;
  readonly #received: Buffer[] = [];
  #receivedBytes = 0;
  #hasEnded = false;
  readonly #waiting: (() => void)[] = [];

  constructor(socket: Socket, connection: Socket) {
    this.socket = socket;
    this.connection = connection;
    socket.setNoDelay(true);
    const wake = () => {
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
    socket.on('data', (bytes: Buffer) => {
      this.#received.push(bytes);
      this.#receivedBytes += bytes.length;
      wake();
    });
    for (const event of ['end', 'error', 'close']) {
      socket.on(event, () => {
        this.#hasEnded = true;
        wake();
      });
    }
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Resolves to true when this many bytes have arrived, or to false if the client closed first. */
  async has(bytes: number): Promise<boolean> {
    while (this.#receivedBytes < bytes && !this.#hasEnded) await this.#change();
    return this.#receivedBytes >= bytes;
  }

  /** The next request's head, including its empty line, or `undefined` if the client has closed. */
  async head(): Promise<string | undefined> {
    for (;;) {
      const text = this.#all().toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end !== -1) return this.#take(end + 4).toString('latin1');
      if (this.#hasEnded) return undefined;
      await this.#change();
    }
  }

  async body(bytes: number): Promise<Buffer> {
    if (!(await this.has(bytes))) throw new Error('the client has gone within its body');
    return this.#take(bytes);
  }

  /** Resolves when the client has closed. */
  async gone(): Promise<void> {
    while (!this.#hasEnded) await this.#change();
  }

  /**
   * Resolves to true when the system has accepted the bytes, or to false if the client has closed.
   */
  write(bytes: Uint8Array | string): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.socket.destroyed) resolve(false);
      else this.socket.write(bytes, (error) => resolve(!error));
    });
  }

  /** Writes, then waits until a client in this process has most likely read the bytes. */
  async writeAlone(bytes: Uint8Array | string): Promise<void> {
    await this.write(bytes);
    for (let turn = 0; turn < 4; turn++) await turnOfLoop();
  }

  end(): void {
    this.socket.end();
  }

  reset(): void {
    this.connection.resetAndDestroy();
  }

  #all(): Buffer {
    const all = Buffer.concat(this.#received);
    this.#received.splice(0, this.#received.length, all);
    return all;
  }

  #take(bytes: number): Buffer {
    const all = this.#all();
    this.#received.splice(0, this.#received.length, all.subarray(bytes));
    this.#receivedBytes -= bytes;
    return all.subarray(0, bytes);
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}

export function turnOfLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export interface ScriptedServer extends AsyncDisposable {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
  /** All accepted connections, in order. */
  readonly peers: readonly Peer[];
  /** Rejections of scripts. A test that expects none checks that there are none. */
  readonly failures: readonly unknown[];
  close(): Promise<void>;
}

export interface ServerOptions {
  certificate?: Certificate | undefined;
  /** Address to listen at. Default 127.0.0.1. */
  address?: string;
  tls?: TlsOptions;
}

/** Runs `script` for every connection; `index` counts them from 0. */
export async function startServer(
  script: (peer: Peer, index: number) => Promise<unknown>,
  { certificate, address = '127.0.0.1', tls }: ServerOptions = {},
): Promise<ScriptedServer> {
  const peers: Peer[] = [];
  const failures: unknown[] = [];
  const open = new Map<number | undefined, Socket>();
  const accept = (socket: Socket) => {
    const peer = new Peer(socket, open.get(socket.remotePort) ?? socket);
    peers.push(peer);
    script(peer, peers.length - 1).catch((error: unknown) => failures.push(error));
  };
  // A client in this process that aborts a handshake is not a failure of the server.
  const server: Server = certificate
    ? createTlsServer({ ...certificate, ...tls }, accept).on('tlsClientError', () => undefined)
    : createServer();
  server.on('connection', (socket: Socket) => {
    const { remotePort } = socket;
    open.set(remotePort, socket);
    socket.on('error', () => undefined).on('close', () => open.delete(remotePort));
    if (!certificate) accept(socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, address, resolve);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of open.values()) socket.destroy();
    });
  return {
    protocol: certificate ? 'https:' : 'http:',
    hostname: address,
    port: (server.address() as AddressInfo).port,
    peers,
    failures,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Answers every request on a connection with what `answer` returns for its head. */
export function answering(answer: (head: string, index: number) => string | Uint8Array) {
  return async (peer: Peer): Promise<void> => {
    for (let index = 0; ; index++) {
      const head = await peer.head();
      if (head === undefined) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      await peer.body(length);
      await peer.write(answer(head, index));
    }
  };
}
