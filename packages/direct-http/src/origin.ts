import { Connection, type ConnectionOwner } from './connection.ts';
import { clientClosed, toDirectHttpError } from './errors.ts';
import type { Exchange, Holder } from './exchange.ts';
import type { Endpoint } from './open-socket.ts';
import type { ClientSettings } from './settings.ts';

/**
 * The connections to one server, and the requests that wait for one. Requests are sent in order, on
 * the connection that became free last.
 */
export class Origin implements ConnectionOwner, Holder {
  readonly endpoint: Endpoint;
  /** Value of the Host header. */
  readonly host: string;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly keepAliveMs: number;
  readonly #connectionsMax: number;
  /** Contains each connection until its socket's 'close'. */
  readonly #connections = new Set<Connection>();
  readonly #idle: Connection[] = [];
  readonly #waiting = new Set<Exchange>();
  #connectionsOpened = 0;
  #whenClosed: (() => void) | undefined;
  #isClosing = false;

  constructor(endpoint: Endpoint, host: string, settings: ClientSettings) {
    this.endpoint = endpoint;
    this.host = host;
    this.connectTimeoutMs = settings.connectTimeoutMs;
    this.idleTimeoutMs = settings.idleTimeoutMs;
    this.keepAliveMs = settings.keepAliveMs;
    this.#connectionsMax = settings.connectionsMax;
  }

  get connectionsOpened(): number {
    return this.#connectionsOpened;
  }

  run(exchange: Exchange): void {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.isUsable) {
        idle.start(exchange);
        return;
      }
      idle.close('CLOSED_EARLY', 'the connection was idle for too long');
    }
    if (this.#connections.size < this.#connectionsMax) {
      this.#open(exchange);
    } else {
      exchange.holder = this;
      this.#waiting.add(exchange);
    }
  }

  /** The signal of a waiting request has fired. */
  abort(exchange: Exchange): void {
    this.#waiting.delete(exchange);
    exchange.reject(exchange.abortError('queue', 0));
  }

  released(connection: Connection): void {
    const next = this.#takeWaiting();
    if (next !== undefined) {
      connection.start(next);
    } else {
      connection.park();
      this.#idle.push(connection);
    }
  }

  closed(connection: Connection, repeat: Exchange | undefined): void {
    this.#connections.delete(connection);
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
    if (repeat !== undefined) {
      if (this.#isClosing) repeat.reject(clientClosed());
      else this.#open(repeat);
    }
    while (this.#connections.size < this.#connectionsMax) {
      const next = this.#takeWaiting();
      if (next === undefined) break;
      this.#open(next);
    }
    if (this.#connections.size === 0) this.#whenClosed?.();
  }

  /** Stops everything; resolves when every socket is closed. Called once. */
  close(): Promise<void> {
    this.#isClosing = true;
    for (let next = this.#takeWaiting(); next !== undefined; next = this.#takeWaiting())
      next.reject(clientClosed());
    for (const connection of this.#connections) connection.close('CLIENT_CLOSED', 'the client was closed');
    if (this.#connections.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenClosed = resolve;
    });
  }

  #open(exchange: Exchange): void {
    try {
      this.#connections.add(new Connection(this, exchange));
      this.#connectionsOpened++;
    } catch (error) {
      // For example a `lookup` of the caller that throws.
      exchange.reject(toDirectHttpError(error, 'connect', 0));
    }
  }

  #takeWaiting(): Exchange | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
  }
}
