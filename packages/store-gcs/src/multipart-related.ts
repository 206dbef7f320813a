import { randomUUID } from 'node:crypto';

/**
 * Combines metadata and bytes of an object in one body (RFC 2387), so that the JSON API takes both
 * in one request. Costs one copy of the bytes.
 */
export function multipartRelated(
  metadata: object,
  bytes: Uint8Array,
): { readonly contentType: string; readonly body: Uint8Array } {
  // Random, so that no object can be made to contain it.
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
