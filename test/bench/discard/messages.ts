/** The parts of requests and answers that the dialects of the discarding server share. */

import type { IncomingMessage } from 'node:http';
import type { Range, Received } from './contents.ts';

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent in this order. */
  readonly body?: Iterable<string | Buffer>;
}

/** Answers the clients of one provider. */
export type Dialect = (request: IncomingMessage) => Promise<Answer>;

export function xml(body: string, status = 200): Answer {
  const headers = { 'content-type': 'application/xml' };
  return { status, headers, body: [`<?xml version="1.0" encoding="UTF-8"?>\n${body}`] };
}

export function json(value: unknown, status = 200): Answer {
  return { status, headers: { 'content-type': 'application/json' }, body: [JSON.stringify(value)] };
}

export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

export function unescaped(text: string): string {
  return text
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
}

interface ReadOptions {
  /** Approximate number of bytes to keep from the start. */
  readonly keptBytesMax: number;
  /** Computed over all bytes if given. */
  readonly crc32c?: (bytes: Uint8Array, seed: number) => number;
}

/** Reads a body to its end. */
export function readBody(request: IncomingMessage, { keptBytesMax, crc32c }: ReadOptions): Promise<Received> {
  return new Promise((resolve, reject) => {
    const kept: Buffer[] = [];
    let keptBytes = 0;
    let sizeBytes = 0;
    let crc = 0;
    request.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (crc32c) crc = crc32c(chunk, crc);
      if (keptBytes >= keptBytesMax) return;
      kept.push(Buffer.from(chunk));
      keptBytes += chunk.length;
    });
    request.on('error', reject);
    request.on('end', () => resolve({ sizeBytes, start: Buffer.concat(kept), crc32c: crc }));
  });
}

/**
 * The range that a header such as `bytes=0-99` requests. Without a header it is the whole object.
 * It never exceeds the object.
 */
export function rangeOf(header: string | undefined, sizeBytes: number): Range & { isPart: boolean } {
  const range = /^bytes=(\d+)-(\d*)$/.exec(header ?? '');
  const startBytes = range ? Number(range[1]) : 0;
  const endBytes = Math.min(range?.[2] ? Number(range[2]) + 1 : sizeBytes, sizeBytes);
  return { startBytes, endBytes, isPart: range !== null };
}

/** Headers that say how much of an object an answer contains. */
export function rangeHeaders(
  { startBytes, endBytes, isPart }: Range & { isPart: boolean },
  sizeBytes: number,
): Record<string, string> {
  return {
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
    'content-length': String(endBytes - startBytes),
    ...(isPart ? { 'content-range': `bytes ${startBytes}-${endBytes - 1}/${sizeBytes}` } : {}),
  };
}
