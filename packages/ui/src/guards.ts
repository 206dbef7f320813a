/** Which requests are answered. Pure, so that each attack has a test without a network. */

import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Names of this machine that a user may type instead of the address that is served. */
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];
/** Browsers omit these from `Host` and from `Origin`. */
const DEFAULT_PORTS = { http: 80, https: 443 };

export function isLoopback(host: string): boolean {
  return /^127(\.\d{1,3}){3}$/.test(host) || host === 'localhost' || host === '::1';
}

/** The address as a part of a URL. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

export interface Guard {
  /** The address that is served. */
  readonly host: string;
  /** `https` if the server has a certificate. */
  readonly scheme: 'http' | 'https';
  readonly port: number;
  readonly token: string;
}

export interface Refusal {
  readonly status: 401 | 403 | 405 | 421;
  readonly message: string;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/**
 * `null`: the request is answered.
 *
 * - A name of another site in `Host` is DNS rebinding: that site's page would count as this origin.
 *   With a certificate browsers refuse such a name themselves, so any name is accepted.
 * - A page of another origin sends `Origin` or `Sec-Fetch-Site`. Such requests are refused.
 * - Everything but the page itself needs the token, in a header that only a script of this origin
 *   can send.
 */
export function refusalOf({ method, path, headers }: Asked, guard: Guard): Refusal | null {
  const { host, origin } = headers;
  if (isLoopback(guard.host) && !isNameOf(host, guard))
    return { status: 421, message: `this server answers to ${urlHost(guard.host)}:${guard.port} only` };
  if (origin !== undefined && origin !== `${guard.scheme}://${host}`)
    return { status: 403, message: 'a page of another origin has sent this request' };
  const site = headers['sec-fetch-site'];
  if (path.startsWith('/api/') && site !== undefined && site !== 'same-origin')
    return { status: 403, message: 'a page of another origin has sent this request' };
  const isPost = path === '/api/change';
  if (method !== (isPost ? 'POST' : 'GET'))
    return { status: 405, message: `${path.slice(0, 100)} takes ${isPost ? 'POST' : 'GET'}` };
  if (path.startsWith('/api/') && !isToken(headers.authorization, guard.token))
    return { status: 401, message: 'the token is missing or wrong' };
  return null;
}

function isNameOf(given: string | undefined, { host, port, scheme }: Guard): boolean {
  const names = [urlHost(host), ...LOOPBACK];
  if (names.some((name) => given === `${name}:${port}`)) return true;
  return port === DEFAULT_PORTS[scheme] && names.some((name) => given === name);
}

function isToken(header: string | undefined, token: string): boolean {
  const given = Buffer.from(header ?? '');
  const wanted = Buffer.from(`Bearer ${token}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** The content security policy in the page. It names script and style by their hashes. */
export function policyOf(page: string): string {
  return /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1] ?? "default-src 'none'";
}

/** Headers of every answer. `frame-ancestors` counts in a header only. */
export function securityHeaders(policy: string): Record<string, string> {
  return {
    'cache-control': 'no-store',
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
}
