import { randomUUID } from 'node:crypto';

/**
 * Metadata and bytes of an object as one body (RFC 2387), which is how the JSON API takes both in
 * one request. Costs one copy of the bytes.
 */
export function multipartRelated(
  metadata: object,
  bytes: Uint8Array,
): { readonly contentType: string; readonly body: Uint8Array } {
  // Nobody can write bytes that hold it.
  const boundary = `holdfast-${randomUUID()}`;
  const head = Buffer.from(
    `--${boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n${JSON.stringify(metadata)}\r\n` +
      `--${boundary}\r\ncontent-type: application/octet-stream\r\n\r\n`,
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  return {
    contentType: `multipart/related; boundary=${boundary}`,
    body: Buffer.concat([head, bytes, tail]),
  };
}
