/** The head of a request as text. Pure. */

import { DirectHttpError } from './errors.ts';
import type { DirectRequest } from './message.ts';
import { TIMER_MS_MAX } from './settings.ts';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const TARGET = /^\/[\x21-\x7e]*$/;
/**
 * RFC 9110, 5.5: no control character but the tab. Values are bytes, so no character is above
 * U+00FF.
 */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Characters allowed in a Host header and in a look-up, including an IPv6 zone. */
const HOSTNAME = /^[\w.~%:-]+$/;

/** These would change the framing of this connection, which the client controls. */
const REFUSED = new Set(['connection', 'transfer-encoding', 'trailer', 'upgrade']);
/** Requests of other methods without a body send no length (RFC 9110, 8.6). */
const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH']);

/** Tells whether the text can be sent as the value of a header. */
export function isHeaderValue(value: string): boolean {
  return VALUE.test(value);
}

function badRequest(message: string): DirectHttpError {
  return new DirectHttpError('BAD_REQUEST', message, { phase: 'queue' });
}

/** Value of the Host header. Throws `BAD_REQUEST` if it is not possible to connect to the host. */
export function hostHeader({ protocol, hostname, port }: DirectRequest): string {
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw badRequest(`protocol ${JSON.stringify(protocol)} is neither 'http:' nor 'https:'`);
  }
  if (!HOSTNAME.test(hostname)) {
    throw badRequest(
      `hostname ${JSON.stringify(hostname)} is neither a name nor an address without brackets`,
    );
  }
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw badRequest(`port ${port} is not 1 to 65,535`);
  const host = hostname.includes(':') ? `[${hostname.replace(/%.*$/, '')}]` : hostname;
  return port === (protocol === 'https:' ? 443 : 80) ? host : `${host}:${port}`;
}

/**
 * Request line, headers and the empty line, in Latin-1. `host` is the Host header unless one is
 * given. Throws `BAD_REQUEST`: no value from a caller can end a line or add a header.
 */
export function writeRequestHead(request: DirectRequest, host: string): string {
  const { method, path, headers, idleTimeoutMs } = request;
  if (!TOKEN.test(method)) throw badRequest(`method ${JSON.stringify(method)} is not a token`);
  if (!TARGET.test(path)) {
    throw badRequest('path must start with "/" and hold only visible ASCII; encode the rest');
  }
  if (idleTimeoutMs !== undefined && !(idleTimeoutMs > 0 && idleTimeoutMs <= TIMER_MS_MAX)) {
    throw badRequest(`idleTimeoutMs ${idleTimeoutMs} is not above 0 and at most ${TIMER_MS_MAX}`);
  }
  const bodyBytes = request.body?.byteLength ?? 0;
  let fields = '';
  let hasHost = false;
  let hasLength = false;
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (!TOKEN.test(name)) throw badRequest(`header name ${JSON.stringify(name)} is not a token`);
    if (value === undefined || !isHeaderValue(value)) {
      throw badRequest(`value of header ${name} holds a control character or one above U+00FF`);
    }
    const lowerName = name.toLowerCase();
    if (REFUSED.has(lowerName)) throw badRequest(`header ${name} is set by the client`);
    if (lowerName === 'host') {
      if (hasHost) throw badRequest('there are two Host headers');
      hasHost = true;
    } else if (lowerName === 'content-length') {
      if (hasLength || value !== String(bodyBytes)) {
        throw badRequest(`Content-Length is given as ${value}, or twice; the body has ${bodyBytes} bytes`);
      }
      hasLength = true;
    }
    fields += `${name}: ${value}\r\n`;
  }
  if (!hasLength && (bodyBytes > 0 || METHODS_WITH_BODY.has(method)))
    fields += `Content-Length: ${bodyBytes}\r\n`;
  return `${method} ${path} HTTP/1.1\r\n${hasHost ? '' : `Host: ${host}\r\n`}${fields}\r\n`;
}
