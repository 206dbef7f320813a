import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import type { ConnectionOptions, SecureContext } from 'node:tls';
import { tls } from './tls.ts';

/**
 * Interface by which Node requests memory to read into and reports what it read. @types/node
 * declares it only for `net`.
 */
export interface ReadInto {
  /** Must not return an empty view: TLS would loop in native code for ever. */
  buffer(): Uint8Array;
  /**
   * `view` is the one that `buffer` returned last. Must not throw: an exception would end the
   * process.
   */
  callback(bytes: number, view: Uint8Array): boolean;
}

/** Server of the connections, and the state that one TLS connection leaves for the next. */
export interface Endpoint {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
  readonly lookup: LookupFunction | undefined;
  /** Absent for http. */
  readonly secureContext: SecureContext | undefined;
  /** The last resumption ticket from a connection that was verified. */
  session: Buffer | undefined;
}

function openTls(endpoint: Endpoint, onread: ReadInto): Socket {
  const { hostname, port, lookup, secureContext, session } = endpoint;
  const options: ConnectionOptions & { onread: ReadInto } = {
    host: hostname,
    port,
    onread,
    ALPNProtocols: ['http/1.1'],
    // SNI is for names only (RFC 6066, 3). Certificates for addresses are checked against `host`.
    ...(isIP(hostname) === 0 && { servername: hostname }),
    ...(secureContext && { secureContext }),
    ...(session && { session }),
    ...(lookup && { lookup }),
  };
  const socket = tls().connect(options);
  // Node emits tickets only after it has verified the certificate and its name. A resumed session
  // is not verified again.
  socket.on('session', (ticket) => {
    endpoint.session = ticket;
  });
  // A ticket that the server rejects must not fail every later connection.
  socket.once('error', () => {
    endpoint.session = undefined;
  });
  return socket;
}

/**
 * A socket that is connecting and reads into what `onread.buffer` returns. It emits `connect` or,
 * over TLS, `secureConnect`.
 */
export function openSocket(endpoint: Endpoint, onread: ReadInto): Socket {
  const { hostname, port, lookup } = endpoint;
  const socket =
    endpoint.protocol === 'https:'
      ? openTls(endpoint, onread)
      : connect({ host: hostname, port, onread, ...(lookup && { lookup }) });
  return socket.setNoDelay(true);
}
