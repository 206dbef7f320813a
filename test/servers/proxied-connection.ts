/** One connection through the cutting proxy. */

import { connect, type Socket } from 'node:net';
import { RequestFraming, type RequestHead } from './request-framing.ts';

/** One request and its reply, as far as they have arrived. */
export interface Exchange extends RequestHead {
  /**
   * Start of the body, as far as the proxy waits for it. Some providers name the operation only
   * there.
   */
  readonly bodyStart: string;
  /** Bytes forwarded to the server. */
  readonly requestBytes: number;
  /** Bytes forwarded to the client. Interim replies (100 Continue) do not count. */
  readonly replyBytes: number;
  readonly cut: 'request' | 'reply' | undefined;
}

/**
 * `request: n`: the server gets n bytes of the request and then the end of the connection. It may
 * act on them if they are the whole request. `reply: n`: the server gets the whole request and
 * answers. The client gets n bytes of the answer and then the end of the connection.
 */
export type CutPoint = { readonly request: number } | { readonly reply: number };

export interface PlannedCut {
  readonly after: CutPoint;
  readonly onCut: () => void;
}

export interface ProxiedConnectionOptions {
  readonly host: string;
  readonly port: number;
  /**
   * Called when the head of a request and the start of its body are complete, before any byte is
   * forwarded. Returns where to cut it.
   */
  readonly onRequest: (exchange: Exchange) => PlannedCut | undefined;
  /** How many bytes of a body the proxy reads before it forwards anything. */
  readonly bodyStartBytes: number;
  /** Called if the bytes are not HTTP/1.1 that the proxy can parse. The connection is ended. */
  readonly onFault: (error: unknown) => void;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** A request in progress. */
interface Current {
  readonly framing: RequestFraming;
  /** Bytes of the head and of the body's start, until they are complete. */
  held: Buffer[];
  exchange: Writable<Exchange> | undefined;
  cut: PlannedCut | undefined;
  /** True after the first byte of its final reply. */
  isAnswered: boolean;
}

// "HTTP/1.1 100": these bytes show whether a reply is interim or final.
const STATUS_BYTES = 12;

export class ProxiedConnection {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #onRequest: ProxiedConnectionOptions['onRequest'];
  readonly #bodyStartBytes: number;
  #current: Current | undefined;
  #isCut = false;
  /** Bytes of a reply whose status is not known yet, or of an interim reply. */
  #interim = Buffer.alloc(0);

  constructor(client: Socket, { host, port, onRequest, bodyStartBytes, onFault }: ProxiedConnectionOptions) {
    this.#client = client;
    this.#bodyStartBytes = bodyStartBytes;
    this.#server = connect({ host, port, allowHalfOpen: true, noDelay: true });
    this.#onRequest = onRequest;
    client.on('data', (chunk: Buffer) => {
      try {
        this.#fromClient(chunk);
      } catch (error) {
        onFault(error);
        client.destroy();
      }
    });
    this.#server.on('data', (chunk: Buffer) => this.#fromServer(chunk));
    tie(client, this.#server);
    tie(this.#server, client);
  }

  get sockets(): readonly Socket[] {
    return [this.#client, this.#server];
  }

  #fromClient(chunk: Buffer): void {
    for (let rest = chunk; rest.length > 0 && !this.#isCut; ) {
      const current = this.#requestOfNextByte();
      const count = current.framing.push(rest);
      this.#passRequest(current, rest.subarray(0, count));
      rest = rest.subarray(count);
    }
  }

  #requestOfNextByte(): Current {
    const last = this.#current;
    if (last !== undefined && !last.framing.isComplete) return last;
    if (last !== undefined && !last.isAnswered)
      throw new Error('the proxy does not support pipelined requests');
    this.#current = {
      framing: new RequestFraming(),
      held: [],
      exchange: undefined,
      cut: undefined,
      isAnswered: false,
    };
    return this.#current;
  }

  #passRequest(current: Current, bytes: Buffer): void {
    current.held.push(bytes);
    const { head } = current.framing;
    if (head === undefined) return;
    if (current.exchange === undefined) {
      const bodyStart = bodyStartOf(head, Buffer.concat(current.held), this.#bodyStartBytes);
      if (bodyStart === undefined) return;
      current.exchange = { ...head, bodyStart, requestBytes: 0, replyBytes: 0, cut: undefined };
      current.cut = this.#onRequest(current.exchange);
    }
    const { exchange, cut } = current;
    const ready = Buffer.concat(current.held.splice(0));
    const limit = cut !== undefined && 'request' in cut.after ? cut.after.request : Number.POSITIVE_INFINITY;
    const passed = ready.subarray(0, limit - exchange.requestBytes);
    exchange.requestBytes += passed.length;
    write(this.#client, this.#server, passed);
    if (exchange.requestBytes === limit) this.#cutNow(current, 'request');
    else this.#cutReplyIfDue(current);
  }

  #fromServer(chunk: Buffer): void {
    if (this.#isCut) return;
    const current = this.#current;
    // A server may send a reply on a connection without a request, like a 408 for an idle one.
    if (current?.exchange === undefined) {
      write(this.#server, this.#client, chunk);
      return;
    }
    const rest = current.isAnswered ? chunk : this.#withoutInterim(chunk);
    if (rest.length > 0) this.#passReply(current, current.exchange, rest);
  }

  /** Forwards interim replies. Returns the bytes that belong to the final one. */
  #withoutInterim(chunk: Buffer): Buffer {
    this.#interim = Buffer.concat([this.#interim, chunk]);
    for (;;) {
      const pending = this.#interim;
      if (pending.length < STATUS_BYTES) return Buffer.alloc(0);
      if (!/^HTTP\/1\.1 1\d\d/.test(pending.toString('latin1', 0, STATUS_BYTES))) {
        this.#interim = Buffer.alloc(0);
        return pending;
      }
      const end = pending.indexOf('\r\n\r\n');
      if (end < 0) return Buffer.alloc(0);
      write(this.#server, this.#client, pending.subarray(0, end + 4));
      this.#interim = pending.subarray(end + 4);
    }
  }

  #passReply(current: Current, exchange: Writable<Exchange>, bytes: Buffer): void {
    current.isAnswered = true;
    const passed = bytes.subarray(0, replyLimit(current) - exchange.replyBytes);
    exchange.replyBytes += passed.length;
    write(this.#server, this.#client, passed);
    this.#cutReplyIfDue(current);
  }

  /** Waits until the server has its whole request before it cuts the reply to the client. */
  #cutReplyIfDue(current: Current): void {
    const { exchange, framing, isAnswered } = current;
    if (isAnswered && framing.isComplete && exchange?.replyBytes === replyLimit(current)) {
      this.#cutNow(current, 'reply');
    }
  }

  /** Both sides get the bytes forwarded so far, then the end. */
  #cutNow({ exchange, cut }: Current, what: 'request' | 'reply'): void {
    this.#isCut = true;
    if (exchange !== undefined) exchange.cut = what;
    cut?.onCut();
    this.#server.destroySoon();
    this.#client.destroySoon();
  }
}

function replyLimit({ cut }: Current): number {
  return cut !== undefined && 'reply' in cut.after ? cut.after.reply : Number.POSITIVE_INFINITY;
}

/** A slow receiver slows the sender down. */
function write(from: Socket, to: Socket, bytes: Buffer): void {
  if (bytes.length === 0 || !to.writable || to.write(bytes)) return;
  from.pause();
  to.once('drain', () => from.resume());
}

/** The end of one side ends the other. */
function tie(from: Socket, to: Socket): void {
  from.on('end', () => to.end());
  // It closes next, which closes the other side.
  from.on('error', () => from.destroy());
  from.on('close', () => to.destroySoon());
}

/**
 * `undefined` until the start of the body is complete. A client that waits for an interim reply
 * sends no body before it.
 */
function bodyStartOf({ headers }: RequestHead, request: Buffer, bytesMax: number): string | undefined {
  if (headers['expect'] !== undefined) return '';
  const length = Math.min(Number(headers['content-length'] ?? 0), bytesMax);
  const at = request.indexOf('\r\n\r\n') + 4;
  return request.length < at + length ? undefined : request.toString('latin1', at, at + length);
}
