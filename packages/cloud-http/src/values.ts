/** Converts between the values of cloud stores and ours. */

import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import type { Secret } from './secret.ts';

/** Big-endian, as in the checksum headers. */
export function base64Crc(crc32c: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32c >>> 0);
  return bytes.toString('base64');
}

/** Undefined unless it is a single CRC32C: S3 appends "-N" to a checksum of checksums. */
export function crcOfBase64(text: string | undefined): number | undefined {
  const bytes =
    text === undefined ? undefined : /^[A-Za-z0-9+/]{6}==$/.test(text) && Buffer.from(text, 'base64');
  return bytes ? bytes.readUInt32BE() : undefined;
}

/** Removes the quotes, which some servers omit. */
export function plainEtag(etag: string | undefined): string {
  return (etag ?? '').replace(/^"|"$/g, '');
}

/**
 * MD5 of a part, if no better checksum is available. Most stores use it as the ETag, and no other
 * ETag looks like an MD5 by chance.
 */
export function md5OfEtag(etag: string): { readonly md5: string } | undefined {
  return /^[0-9a-f]{32}$/.test(etag) ? { md5: etag } : undefined;
}

/** Parses an HTTP date to milliseconds since 1970; the current time if there is none. */
export function dateMs(date: string | undefined): number {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? Date.now() : ms;
}

/** True if requests to it never leave this machine. `hostname` has no brackets. */
export function isLoopback(hostname: string): boolean {
  if (isIP(hostname) === 4) return hostname.startsWith('127.');
  return hostname === '::1' || hostname === 'localhost' || hostname.endsWith('.localhost');
}

/** Hostname of a URL, without the brackets of an IPv6 address. */
export function bareHostname(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/** Server of a base URL, and the beginning of request paths, without a trailing '/'. */
export function serverOf(url: URL): {
  readonly protocol: 'http:' | 'https:';
  readonly hostname: string;
  readonly port: number;
  readonly basePath: string;
} {
  const protocol = url.protocol === 'http:' ? 'http:' : 'https:';
  return {
    protocol,
    hostname: bareHostname(url.hostname),
    port: Number(url.port) || (protocol === 'http:' ? 80 : 443),
    basePath: url.pathname.replace(/\/$/, ''),
  };
}

/** True if a secret in a header could be read on the network. */
export function isInTheClear(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !isLoopback(bareHostname(hostname));
}

/**
 * Yields the content of each element of this name that has no attributes and contains no element of
 * the same name. One pass: a regular expression that searches the end from each start would take
 * minutes for a page of start tags.
 */
export function* elementsOf(xml: string, name: string): Generator<string> {
  const [begin, end] = [`<${name}>`, `</${name}>`];
  let beginAt = xml.indexOf(begin);
  while (beginAt !== -1) {
    const from = beginAt + begin.length;
    const to = xml.indexOf(end, from);
    if (to === -1) return;
    yield xml.slice(from, to);
    beginAt = xml.indexOf(begin, to);
  }
}

/** Text of the first element of this name that has no attributes. */
export function textOf(xml: string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  return text === undefined ? undefined : unescapedXml(text);
}

/** Text of XML, with its entities resolved. Unknown ones stay. */
export function unescapedXml(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi,
    (whole, decimal?: string, hex?: string, name = '') => {
      if (decimal === undefined && hex === undefined) return ENTITIES[name] ?? whole;
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', apos: "'", gt: '>', lt: '<', quot: '"' };

/** Headers that carry the caller's own key, in the form that GCS and Azure share. */
export function customerKeyHeaders(prefix: string, secret: Secret | undefined): Record<string, string> {
  const key = secret?.reveal();
  if (key === undefined) return {};
  return {
    [`${prefix}encryption-algorithm`]: 'AES256',
    [`${prefix}encryption-key`]: key,
    [`${prefix}encryption-key-sha256`]: createHash('sha256').update(key, 'base64').digest('base64'),
  };
}
