/** How S3 writes values, and how we keep them. */

/** Big-endian, as S3's checksum headers have it. */
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

/** Of an HTTP date, milliseconds since 1970; now, where there is none. */
export function dateMs(date: string | undefined): number {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? Date.now() : ms;
}
