/**
 * An HTTP server that speaks just enough S3 to be saved to and restored from, and keeps no large object: what it costs a client to talk to it
 * is the client's own cost. Objects up to `KEPT_BYTES_MAX` are kept; of larger ones it knows the size, and gives back the pattern
 * that the benchmark's files are made of. Signatures are not checked.
 *
 * A process of its own: `discard-server.ts PATTERN_FILE [KEY.pem CERTIFICATE.pem]`, started with an IPC channel. It sends `{ port }` once it listens, answers
 * every message with `Counts` and sets them back to zero, and ends when the channel closes.
 */

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { MIB, patternPieces, ROTATION_BYTES } from './shapes.ts';

export interface Counts {
  /** TCP connections that were opened. */
  readonly connections: number;
  readonly requests: number;
  /** What says something about checksums in the heads of requests that move payload: method, header and, where it is a word, value. */
  readonly checksumHeaders: readonly string[];
}

const KEPT_BYTES_MAX = MIB;
const LIST_PAGE_KEYS = 1000;
/** Of the start of an object, which tell where in the pattern it begins. */
const SAMPLE_BYTES = 64;

interface StoredObject {
  readonly sizeBytes: number;
  readonly etag: string;
  readonly modified: Date;
  /** Absent: `rotationBytes` says which bytes of the pattern it holds. */
  readonly bytes?: Buffer;
  readonly rotationBytes: number;
}

interface Part {
  readonly sizeBytes: number;
  readonly etag: string;
  /** Its first bytes. */
  readonly start: Buffer;
}

const [patternPath = '', keyPath, certificatePath] = process.argv.slice(2);
const pattern = readFileSync(patternPath);
const objects = new Map<string, StoredObject>();
const uploads = new Map<string, Map<number, Part>>();
const checksumHeaders = new Set<string>();
let connections = 0;
let requests = 0;
let serial = 0;

/** Ends as that of an object in parts: clients take 32 digits alone for the MD5 of the bytes. */
function newEtag(): string {
  serial++;
  return `"${serial.toString(16).padStart(32, '0')}-1"`;
}

interface Body {
  readonly sizeBytes: number;
  /** All of it if it is small. */
  readonly start: Buffer;
}

/** Reads a body to its end and keeps only its start, about so much of it, without the framing of aws-chunked. */
function readBody(request: IncomingMessage, keptBytesMax: number): Promise<Body> {
  return new Promise((resolve, reject) => {
    const kept: Buffer[] = [];
    let keptBytes = 0;
    let sizeBytes = 0;
    request.on('data', (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (keptBytes >= keptBytesMax) return;
      kept.push(Buffer.from(chunk));
      keptBytes += chunk.length;
    });
    request.on('error', reject);
    request.on('end', () => {
      const raw = Buffer.concat(kept);
      const decoded = request.headers['x-amz-decoded-content-length'];
      if (decoded === undefined) resolve({ sizeBytes, start: raw });
      else resolve({ sizeBytes: Number(decoded), start: withoutFraming(raw) });
    });
  });
}

/** "SIZE-IN-HEX[;signature]\r\n BYTES \r\n" again and again, up to size 0 or the end of what is there. */
function withoutFraming(raw: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < raw.length; ) {
    const lineEnd = raw.indexOf('\r\n', at);
    const size = Number.parseInt(raw.toString('latin1', at, lineEnd), 16);
    if (lineEnd === -1 || !(size > 0)) break;
    pieces.push(raw.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return Buffer.concat(pieces);
}

/** Where in the pattern an object begins, from its first bytes. */
function rotationOf(start: Buffer): number {
  const first = start.subarray(0, SAMPLE_BYTES);
  for (let at = 0; at < pattern.length; at += ROTATION_BYTES)
    if (pattern.compare(first, 0, first.length, at, at + first.length) === 0) return at;
  throw new Error('an object of more than 1 MiB is not made of the pattern, so it cannot be given back');
}

function checksumsOf(request: IncomingMessage): Record<string, string> {
  const entries = Object.entries(request.headers).filter(([name]) => name.startsWith('x-amz-checksum-'));
  return Object.fromEntries(entries) as Record<string, string>;
}

const CHECKSUM_HEADERS = /^(content-md5|x-amz-(content-sha256|checksum-.*|sdk-checksum-algorithm|trailer))$/;

function noteChecksums(request: IncomingMessage): void {
  for (const [name, value] of Object.entries(request.headers)) {
    if (!CHECKSUM_HEADERS.test(name)) continue;
    const isWord = /^(UNSIGNED|STREAMING|ENABLED|x-amz-|[A-Z0-9_]+$)/.test(String(value));
    checksumHeaders.add(`${request.method} ${name}${isWord ? `: ${value}` : ''}`);
  }
}

type Query = URLSearchParams;

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent one after the other. */
  readonly body?: Iterable<string | Buffer>;
}

function xml(body: string): Answer {
  const headers = { 'content-type': 'application/xml' };
  return { status: 200, headers, body: [`<?xml version="1.0" encoding="UTF-8"?>\n${body}`] };
}

function refusal(status: number, code: string): Answer {
  return { ...xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`), status };
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

function unescaped(text: string): string {
  return text
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
}

async function putObject(key: string, request: IncomingMessage): Promise<Answer> {
  noteChecksums(request);
  // Room for the framing of an object that is just small enough to be kept.
  const { sizeBytes, start } = await readBody(request, 2 * KEPT_BYTES_MAX);
  if (request.headers['if-none-match'] === '*' && objects.has(key)) return refusal(412, 'PreconditionFailed');
  const isKept = sizeBytes <= KEPT_BYTES_MAX;
  const object: StoredObject = {
    sizeBytes,
    etag: newEtag(),
    modified: new Date(),
    ...(isKept ? { bytes: start } : {}),
    rotationBytes: isKept ? 0 : rotationOf(start),
  };
  objects.set(key, object);
  return { status: 200, headers: { etag: object.etag, ...checksumsOf(request) } };
}

async function putPart(query: Query, request: IncomingMessage): Promise<Answer> {
  noteChecksums(request);
  const { sizeBytes, start } = await readBody(request, 2 * SAMPLE_BYTES);
  const number = Number(query.get('partNumber'));
  const parts = uploads.get(query.get('uploadId') ?? '');
  if (parts === undefined) return refusal(404, 'NoSuchUpload');
  const part = { sizeBytes, etag: newEtag(), start: Buffer.from(start.subarray(0, SAMPLE_BYTES)) };
  parts.set(number, part);
  return { status: 200, headers: { etag: part.etag, ...checksumsOf(request) } };
}

function beginUpload({ bucket, key }: Target): Answer {
  serial++;
  const id = `upload-${serial}`;
  uploads.set(id, new Map());
  const names = `<Bucket>${bucket}</Bucket><Key>${escaped(key)}</Key><UploadId>${id}</UploadId>`;
  return xml(`<InitiateMultipartUploadResult>${names}</InitiateMultipartUploadResult>`);
}

async function completeUpload({ bucket, key, query }: Target, request: IncomingMessage): Promise<Answer> {
  await readBody(request, 0);
  const id = query.get('uploadId') ?? '';
  const parts = uploads.get(id);
  if (parts === undefined) return refusal(404, 'NoSuchUpload');
  uploads.delete(id);
  let sizeBytes = 0;
  for (const part of parts.values()) sizeBytes += part.sizeBytes;
  const etag = newEtag();
  // Not always number 1: minio-js 8.0.7 counts its parts from 2.
  const first = parts.get(Math.min(...parts.keys()));
  const rotationBytes = first ? rotationOf(first.start) : 0;
  objects.set(key, { sizeBytes, etag, modified: new Date(), rotationBytes });
  const crc32c = request.headers['x-amz-checksum-crc32c'];
  const checksum = crc32c
    ? `<ChecksumCRC32C>${crc32c}</ChecksumCRC32C><ChecksumType>FULL_OBJECT</ChecksumType>`
    : '';
  const names = `<Location>/${bucket}</Location><Bucket>${bucket}</Bucket><Key>${escaped(key)}</Key><ETag>${escaped(etag)}</ETag>`;
  return xml(`<CompleteMultipartUploadResult>${names}${checksum}</CompleteMultipartUploadResult>`);
}

function listParts({ key, query }: Target): Answer {
  const parts = uploads.get(query.get('uploadId') ?? '');
  if (parts === undefined) return refusal(404, 'NoSuchUpload');
  const rows = [...parts]
    .sort(([a], [b]) => a - b)
    .map(([number, { etag, sizeBytes }]) => {
      const facts = `<ETag>${escaped(etag)}</ETag><Size>${sizeBytes}</Size>`;
      return `<Part><PartNumber>${number}</PartNumber>${facts}</Part>`;
    });
  const head = `<Key>${escaped(key)}</Key><IsTruncated>false</IsTruncated>`;
  return xml(`<ListPartsResult>${head}${rows.join('')}</ListPartsResult>`);
}

/** None to resume: who asks begins anew. */
function listUploads({ bucket }: Target): Answer {
  const state = `<Bucket>${bucket}</Bucket><IsTruncated>false</IsTruncated>`;
  return xml(`<ListMultipartUploadsResult>${state}</ListMultipartUploadsResult>`);
}

function getObject(key: string, request: IncomingMessage): Answer {
  const object = objects.get(key);
  if (object === undefined) return refusal(404, 'NoSuchKey');
  const { bytes, rotationBytes, sizeBytes, etag } = object;
  const wanted = request.headers['if-match'];
  if (wanted !== undefined && wanted.replaceAll('"', '') !== etag.replaceAll('"', ''))
    return refusal(412, 'PreconditionFailed');
  if (request.method === 'GET') noteChecksums(request);
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const startBytes = range ? Number(range[1]) : 0;
  const endBytes = Math.min(range?.[2] ? Number(range[2]) + 1 : sizeBytes, sizeBytes);
  if (range && startBytes >= sizeBytes) return refusal(416, 'InvalidRange');
  const headers = {
    etag,
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
    'content-length': String(endBytes - startBytes),
    'last-modified': object.modified.toUTCString(),
    ...(range ? { 'content-range': `bytes ${startBytes}-${endBytes - 1}/${sizeBytes}` } : {}),
  };
  const body = bytes
    ? [bytes.subarray(startBytes, endBytes)]
    : patternPieces(pattern, { rotationBytes, startBytes, endBytes });
  return { status: range ? 206 : 200, headers, body };
}

function listObjects(query: Query): Answer {
  const prefix = query.get('prefix') ?? '';
  const after = query.get('continuation-token') ?? query.get('start-after') ?? query.get('marker') ?? '';
  const limit = Math.min(Number(query.get('max-keys') ?? LIST_PAGE_KEYS), LIST_PAGE_KEYS);
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
  const page = keys.slice(0, limit);
  const isEncoded = query.get('encoding-type') === 'url';
  const encode = isEncoded ? encodeURIComponent : escaped;
  const rows = page.map((key) => {
    const { etag, sizeBytes, modified } = objects.get(key) as StoredObject;
    const facts = `<LastModified>${modified.toISOString()}</LastModified><ETag>${escaped(etag)}</ETag><Size>${sizeBytes}</Size>`;
    return `<Contents><Key>${encode(key)}</Key>${facts}<StorageClass>STANDARD</StorageClass></Contents>`;
  });
  const last = escaped(page.at(-1) ?? '');
  const isTruncated = keys.length > page.length;
  const token = isTruncated ? `<NextContinuationToken>${last}</NextContinuationToken>` : '';
  const head = `<Prefix>${escaped(prefix)}</Prefix><KeyCount>${page.length}</KeyCount><MaxKeys>${limit}</MaxKeys>`;
  const encoding = isEncoded ? '<EncodingType>url</EncodingType>' : '';
  const state = `${encoding}<IsTruncated>${isTruncated}</IsTruncated>${token}`;
  // With a namespace, which some clients insist on.
  return xml(
    `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${head}${state}${rows.join('')}</ListBucketResult>`,
  );
}

async function deleteObjects(request: IncomingMessage): Promise<Answer> {
  const { start } = await readBody(request, KEPT_BYTES_MAX);
  for (const [, key = ''] of start.toString('utf8').matchAll(/<Key>([^<]*)<\/Key>/g))
    objects.delete(unescaped(key));
  return xml('<DeleteResult></DeleteResult>');
}

function deleteOne({ key, query }: Target): Answer {
  if (query.has('uploadId')) uploads.delete(query.get('uploadId') ?? '');
  else objects.delete(key);
  return { status: 204 };
}

interface Target {
  readonly bucket: string;
  /** Empty: the bucket itself. */
  readonly key: string;
  readonly query: Query;
}

function targetOf(request: IncomingMessage): Target {
  const url = new URL(request.url ?? '/', 'http://server');
  const [, bucket = '', ...rest] = url.pathname.split('/');
  return { bucket, key: decodeURIComponent(rest.join('/')), query: url.searchParams };
}

async function answerTo(request: IncomingMessage): Promise<Answer> {
  requests++;
  const target = targetOf(request);
  const { key, query } = target;
  const method = request.method ?? '';
  if (key === '') {
    if (method === 'POST' && query.has('delete')) return deleteObjects(request);
    if (method === 'GET' && query.has('location')) return xml('<LocationConstraint></LocationConstraint>');
    if (method === 'GET' && query.has('uploads')) return listUploads(target);
    return method === 'GET' ? listObjects(query) : { status: 200 };
  }
  if (method === 'PUT') return query.has('partNumber') ? putPart(query, request) : putObject(key, request);
  if (method === 'POST' && query.has('uploads')) return beginUpload(target);
  if (method === 'POST' && query.has('uploadId')) return completeUpload(target, request);
  if (method === 'GET' && query.has('uploadId')) return listParts(target);
  if (method === 'GET' || method === 'HEAD') return getObject(key, request);
  return method === 'DELETE' ? deleteOne(target) : refusal(405, 'MethodNotAllowed');
}

async function onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const { status, headers = {}, body = [] } = await answerTo(request);
    response.writeHead(status, headers);
    if (request.method !== 'HEAD') for (const piece of body) response.write(piece);
    response.end();
  } catch (error) {
    console.error(error);
    // The client sees a connection that breaks, and what was wrong stands in our output.
    request.destroy();
  }
}

const listener = (request: IncomingMessage, response: ServerResponse) => void onRequest(request, response);

const server =
  keyPath !== undefined && certificatePath !== undefined
    ? createTlsServer({ key: readFileSync(keyPath), cert: readFileSync(certificatePath) }, listener)
    : createServer(listener);
server.on('connection', () => {
  connections++;
});
// Clients keep connections while they read from disk; closing those would count them twice.
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('message', () => {
  const counts: Counts = { connections, requests, checksumHeaders: [...checksumHeaders].sort() };
  [connections, requests] = [0, 0];
  checksumHeaders.clear();
  process.send?.(counts);
});
process.on('disconnect', () => process.exit(0));
