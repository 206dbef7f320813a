/**
 * Parses the head of an answer from bytes. Pure. It is strict where leniency has let two parties
 * see different boundaries (request smuggling): CRLF only, no folding, no control characters, one
 * length.
 */

import { badHead } from './errors.ts';

export interface ResponseHead {
  readonly status: number;
  /**
   * Names in lower case, repeated ones joined by ", ". Without a prototype, so that no name has a
   * special meaning.
   */
  readonly headers: Readonly<Record<string, string>>;
  readonly contentLengthBytes: number | undefined;
  readonly isChunked: boolean;
  /** The server accepts another request on this connection. */
  readonly keepsAlive: boolean;
  /**
   * How long an idle connection may be used, if the server states its time; 0 if that is too short.
   */
  readonly keepAliveMs: number | undefined;
}

const FIELDS_MAX = 200;
/** A server closes at about the time that it states. No request may be on its way then. */
const KEEP_ALIVE_MARGIN_MS = 1000;
/** Network devices on the way drop idle connections that both ends keep. */
const KEEP_ALIVE_MS_MAX = 60_000;
const HEAD_END = Buffer.from('\r\n\r\n', 'latin1');
const START = Buffer.from('HTTP/1.', 'latin1');
const LF = 0x0a;
const CR = 0x0d;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n/;
/**
 * Sticky: name, ':', value with the blanks around it. No two parts can match the same text, so
 * matching takes linear time.
 */
const FIELD = /([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)\r\n/y;
/** 15 digits: the largest is a safe integer. */
const LENGTH = /^\d{1,15}$/;

/**
 * Position after the head in the first `endBytes` of `bytes`; -1 if it is incomplete. Bytes before
 * `fromBytes` were searched already.
 */
export function findHeadEnd(bytes: Buffer, fromBytes: number, endBytes: number): number {
  const index = bytes.indexOf(HEAD_END, Math.max(0, fromBytes - 3));
  return index === -1 || index + 4 > endBytes ? -1 : index + 4;
}

/**
 * Throws `BAD_HEAD` if no further bytes can make this a valid head. So the client does not wait for
 * more bytes from a server that does not speak HTTP.
 */
export function checkHeadBeginning(bytes: Buffer, endBytes: number): void {
  const length = Math.min(START.length, endBytes);
  if (START.compare(bytes, 0, length, 0, length) !== 0)
    throw badHead('the answer does not start with "HTTP/1."');
  for (let at = bytes.indexOf(LF); at !== -1 && at < endBytes; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] !== CR) throw badHead('a line of the head ends in LF alone');
  }
}

/** Trims space and tab only; `trim()` also removes other characters. */
function trimBlanks(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && (value[start] === ' ' || value[start] === '\t')) start++;
  while (end > start && (value[end - 1] === ' ' || value[end - 1] === '\t')) end--;
  return value.slice(start, end);
}

function parseFields(text: string, from: number): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  const end = text.length - 2;
  let count = 0;
  let at = from;
  while (at < end) {
    FIELD.lastIndex = at;
    const match = FIELD.exec(text);
    if (match === null) throw badHead(`header ${count + 1} is not "name: value" in one line`);
    if (++count > FIELDS_MAX) throw badHead(`there are more than ${FIELDS_MAX} headers`);
    at = FIELD.lastIndex;
    const name = (match[1] ?? '').toLowerCase();
    const value = trimBlanks(match[2] ?? '');
    const earlier = headers[name];
    if (earlier === undefined) headers[name] = value;
    else if (name !== 'content-length') headers[name] = `${earlier}, ${value}`;
    else if (earlier !== value) throw badHead('there are two different lengths');
  }
  return headers;
}

function keepAliveMs(seconds: number): number {
  return Math.max(0, Math.min(seconds * 1000 - KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MS_MAX));
}

/** `bytes` is the whole head, including its empty line. Throws `BAD_HEAD`. */
export function parseResponseHead(bytes: Buffer): ResponseHead {
  const text = bytes.toString('latin1');
  const statusLine = STATUS_LINE.exec(text);
  if (statusLine === null)
    throw badHead('the first line is not "HTTP/1.1", a status from 100 to 599 and a phrase');
  const isHttp10 = statusLine[1] === '0';
  const headers = parseFields(text, statusLine[0].length);

  const length = headers['content-length'];
  if (length !== undefined && !LENGTH.test(length)) throw badHead('Content-Length is not 1 to 15 digits');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) {
    if (length !== undefined) throw badHead('there are both Content-Length and Transfer-Encoding');
    if (isHttp10) throw badHead('there is a Transfer-Encoding in HTTP/1.0');
    if (coding.toLowerCase() !== 'chunked') throw badHead('Transfer-Encoding is not "chunked"');
  }
  const connection = headers['connection'];
  const closes = connection !== undefined && /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(connection);
  const seconds = /(?:^|[,; \t])timeout=(\d{1,6})/i.exec(headers['keep-alive'] ?? '')?.[1];
  return {
    status: Number(statusLine[2]),
    headers,
    contentLengthBytes: length === undefined ? undefined : Number(length),
    isChunked: coding !== undefined,
    keepsAlive: !isHttp10 && !closes,
    keepAliveMs: seconds === undefined ? undefined : keepAliveMs(Number(seconds)),
  };
}
