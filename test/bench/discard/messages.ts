/** Requests and answers of the discarding server, as far as its dialects share them. */

import type { IncomingMessage } from 'node:http';
import type { Range, Received } from './contents.ts';

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent one after the other. */
  readonly body?: Iterable<string | Buffer>;
}

/** What a provider's clients are answered. */
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
  /** About so much of the start is kept. */
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

/** Bytes of an object that a header such as `bytes=0-99` asks for: all of them if there is none, none past its end. */
export function rangeOf(header: string | undefined, sizeBytes: number): Range & { isPart: boolean } {
  const range = /^bytes=(\d+)-(\d*)$/.exec(header ?? '');
  const startBytes = range ? Number(range[1]) : 0;
  const endBytes = Math.min(range?.[2] ? Number(range[2]) + 1 : sizeBytes, sizeBytes);
  return { startBytes, endBytes, isPart: range !== null };
}

/** How much of an object an answer holds. */
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
