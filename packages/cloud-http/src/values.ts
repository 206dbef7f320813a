/** How cloud stores write values, and how we keep them. */

import { isIP } from 'node:net';

/** Big-endian, as the checksum headers have it. */
export function base64Crc(crc32c: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32c >>> 0);
  return bytes.toString('base64');
}

/** Undefined for anything but one CRC32C: S3 appends "-N" to a checksum of checksums. */
export function crcOfBase64(text: string | undefined): number | undefined {
  const bytes =
    text === undefined ? undefined : /^[A-Za-z0-9+/]{6}==$/.test(text) && Buffer.from(text, 'base64');
  return bytes ? bytes.readUInt32BE() : undefined;
}

/** Servers differ in the quotes. */
export function plainEtag(etag: string | undefined): string {
  return (etag ?? '').replace(/^"|"$/g, '');
}

/**
 * Of a part, where no better checksum is told: most stores take its MD5 for its ETag, and none is
 * mistaken for one by chance.
 */
export function md5OfEtag(etag: string): { readonly md5: string } | undefined {
  return /^[0-9a-f]{32}$/.test(etag) ? { md5: etag } : undefined;
}

/** Of an HTTP date, milliseconds since 1970; now, where there is none. */
export function dateMs(date: string | undefined): number {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? Date.now() : ms;
}

/** What is sent there never leaves this machine. `hostname` has no brackets. */
export function isLoopback(hostname: string): boolean {
  if (isIP(hostname) === 4) return hostname.startsWith('127.');
  return hostname === '::1' || hostname === 'localhost' || hostname.endsWith('.localhost');
}

/** Of a URL: without the brackets of an IPv6 address. */
export function bareHostname(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/** Where requests to a URL go, and what their paths begin with: without a '/' at its end. */
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

/** Would a secret in a header be read by others on its way? */
export function isInTheClear(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'http:' && !isLoopback(bareHostname(hostname));
}

/**
 * What stands in each element of this name that has no attributes and none of its own name within.
 * One pass: an expression that looks for the end from each beginning would take minutes for a page
 * of beginnings.
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

/** Text of XML, with its entities resolved. */
export function unescapedXml(text: string): string {
  return text
    .replace(/&#(\d{1,6});/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replace(/&(\w+);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', apos: "'", gt: '>', lt: '<', quot: '"' };
