/** A minimal S3 REST API: objects, uploads in parts, listings, deletes. */

import type { IncomingMessage } from 'node:http';
import {
  type Contents,
  KEPT_BYTES_MAX,
  type Part,
  type Received,
  SAMPLE_BYTES,
  type StoredObject,
} from './contents.ts';
import type { Counter } from './counter.ts';
import {
  type Answer,
  type Dialect,
  escaped,
  rangeHeaders,
  rangeOf,
  readBody,
  unescaped,
  xml,
} from './messages.ts';

const LIST_PAGE_KEYS = 1000;

interface Target {
  readonly bucket: string;
  /** Empty for the bucket itself. */
  readonly key: string;
  readonly query: URLSearchParams;
}

export function s3Dialect(contents: Contents, counter: Counter): Dialect {
  const server = new S3Answers(contents, counter);
  return (request) => server.answer(request);
}

class S3Answers {
  readonly #contents: Contents;
  readonly #counter: Counter;

  constructor(contents: Contents, counter: Counter) {
    this.#contents = contents;
    this.#counter = counter;
  }

  async answer(request: IncomingMessage): Promise<Answer> {
    const target = targetOf(request);
    const { key, query } = target;
    const method = request.method ?? '';
    if (key === '') {
      if (method === 'POST' && query.has('delete')) return this.#deleteObjects(request);
      if (method === 'GET' && query.has('location')) return xml('<LocationConstraint></LocationConstraint>');
      if (method === 'GET' && query.has('uploads')) return listUploads(target);
      return method === 'GET' ? this.#listObjects(query) : { status: 200 };
    }
    if (method === 'PUT')
      return query.has('partNumber') ? this.#putPart(query, request) : this.#putObject(key, request);
    if (method === 'POST' && query.has('uploads')) return this.#beginUpload(target);
    if (method === 'POST' && query.has('uploadId')) return this.#completeUpload(target, request);
    if (method === 'GET' && query.has('uploadId')) return this.#listParts(target);
    if (method === 'GET' || method === 'HEAD') return this.#getObject(key, request);
    return method === 'DELETE' ? this.#deleteOne(target) : refusal(405, 'MethodNotAllowed');
  }

  async #putObject(key: string, request: IncomingMessage): Promise<Answer> {
    this.#counter.noteChecksums(request);
    // Leave room for the framing of the largest object that is kept.
    const body = await readPayload(request, 2 * KEPT_BYTES_MAX);
    if (request.headers['if-none-match'] === '*' && this.#contents.objects.has(key))
      return refusal(412, 'PreconditionFailed');
    const etag = etagOf(this.#contents.put(key, body));
    return { status: 200, headers: { etag, ...checksumsOf(request) } };
  }

  async #putPart(query: URLSearchParams, request: IncomingMessage): Promise<Answer> {
    this.#counter.noteChecksums(request);
    const body = await readPayload(request, 2 * SAMPLE_BYTES);
    const parts = this.#contents.uploads.get(query.get('uploadId') ?? '');
    if (parts === undefined) return refusal(404, 'NoSuchUpload');
    const part = this.#contents.part(body);
    parts.set(query.get('partNumber') ?? '', part);
    return { status: 200, headers: { etag: etagOf(part), ...checksumsOf(request) } };
  }

  #beginUpload({ bucket, key }: Target): Answer {
    const id = `upload-${this.#contents.newVersion()}`;
    this.#contents.uploads.set(id, new Map());
    const names = `<Bucket>${bucket}</Bucket><Key>${escaped(key)}</Key><UploadId>${id}</UploadId>`;
    return xml(`<InitiateMultipartUploadResult>${names}</InitiateMultipartUploadResult>`);
  }

  async #completeUpload({ bucket, key, query }: Target, request: IncomingMessage): Promise<Answer> {
    await readBody(request, { keptBytesMax: 0 });
    const id = query.get('uploadId') ?? '';
    const parts = this.#contents.uploads.get(id);
    if (parts === undefined) return refusal(404, 'NoSuchUpload');
    this.#contents.uploads.delete(id);
    const etag = etagOf(
      this.#contents.putParts(
        key,
        numbered(parts).map(([, part]) => part),
      ),
    );
    const crc32c = request.headers['x-amz-checksum-crc32c'];
    const checksum = crc32c
      ? `<ChecksumCRC32C>${crc32c}</ChecksumCRC32C><ChecksumType>FULL_OBJECT</ChecksumType>`
      : '';
    const names = `<Location>/${bucket}</Location><Bucket>${bucket}</Bucket><Key>${escaped(key)}</Key><ETag>${escaped(etag)}</ETag>`;
    return xml(`<CompleteMultipartUploadResult>${names}${checksum}</CompleteMultipartUploadResult>`);
  }

  #listParts({ key, query }: Target): Answer {
    const parts = this.#contents.uploads.get(query.get('uploadId') ?? '');
    if (parts === undefined) return refusal(404, 'NoSuchUpload');
    const rows = numbered(parts).map(([number, part]) => {
      const facts = `<ETag>${escaped(etagOf(part))}</ETag><Size>${part.sizeBytes}</Size>`;
      return `<Part><PartNumber>${number}</PartNumber>${facts}</Part>`;
    });
    const head = `<Key>${escaped(key)}</Key><IsTruncated>false</IsTruncated>`;
    return xml(`<ListPartsResult>${head}${rows.join('')}</ListPartsResult>`);
  }

  #getObject(key: string, request: IncomingMessage): Answer {
    const object = this.#contents.objects.get(key);
    if (object === undefined) return refusal(404, 'NoSuchKey');
    const { sizeBytes, modified } = object;
    const etag = etagOf(object);
    const wanted = request.headers['if-match'];
    if (wanted !== undefined && wanted.replaceAll('"', '') !== etag.replaceAll('"', ''))
      return refusal(412, 'PreconditionFailed');
    if (request.method === 'GET') this.#counter.noteChecksums(request);
    const range = rangeOf(request.headers.range, sizeBytes);
    if (range.isPart && range.startBytes >= sizeBytes) return refusal(416, 'InvalidRange');
    const headers = { etag, 'last-modified': modified.toUTCString(), ...rangeHeaders(range, sizeBytes) };
    return { status: range.isPart ? 206 : 200, headers, body: this.#contents.pieces(object, range) };
  }

  #listObjects(query: URLSearchParams): Answer {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? query.get('start-after') ?? query.get('marker') ?? '';
    const limit = Math.min(Number(query.get('max-keys') ?? LIST_PAGE_KEYS), LIST_PAGE_KEYS);
    const keys = this.#contents.keys(prefix, (key) => key > after, limit + 1);
    const page = keys.slice(0, limit);
    const isEncoded = query.get('encoding-type') === 'url';
    const encode = isEncoded ? encodeURIComponent : escaped;
    const rows = page.map((key) => {
      const object = this.#contents.objects.get(key) as StoredObject;
      const facts = `<LastModified>${object.modified.toISOString()}</LastModified><ETag>${escaped(etagOf(object))}</ETag><Size>${object.sizeBytes}</Size>`;
      return `<Contents><Key>${encode(key)}</Key>${facts}<StorageClass>STANDARD</StorageClass></Contents>`;
    });
    const last = escaped(page.at(-1) ?? '');
    const isTruncated = keys.length > page.length;
    const token = isTruncated ? `<NextContinuationToken>${last}</NextContinuationToken>` : '';
    const head = `<Prefix>${escaped(prefix)}</Prefix><KeyCount>${page.length}</KeyCount><MaxKeys>${limit}</MaxKeys>`;
    const encoding = isEncoded ? '<EncodingType>url</EncodingType>' : '';
    const state = `${encoding}<IsTruncated>${isTruncated}</IsTruncated>${token}`;
    // With a namespace, because some clients require it.
    return xml(
      `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${head}${state}${rows.join('')}</ListBucketResult>`,
    );
  }

  async #deleteObjects(request: IncomingMessage): Promise<Answer> {
    const { start } = await readBody(request, { keptBytesMax: KEPT_BYTES_MAX });
    for (const [, key = ''] of start.toString('utf8').matchAll(/<Key>([^<]*)<\/Key>/g))
      this.#contents.objects.delete(unescaped(key));
    return xml('<DeleteResult></DeleteResult>');
  }

  #deleteOne({ key, query }: Target): Answer {
    if (query.has('uploadId')) this.#contents.uploads.delete(query.get('uploadId') ?? '');
    else this.#contents.objects.delete(key);
    return { status: 204 };
  }
}

function targetOf(request: IncomingMessage): Target {
  const url = new URL(request.url ?? '/', 'http://server');
  const [, bucket = '', ...rest] = url.pathname.split('/');
  return { bucket, key: decodeURIComponent(rest.join('/')), query: url.searchParams };
}

function refusal(status: number, code: string): Answer {
  return xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`, status);
}

/**
 * Ends like the ETag of an object in parts, because clients treat 32 digits alone as the MD5 of the
 * bytes.
 */
function etagOf({ version }: { readonly version: number }): string {
  return `"${version.toString(16).padStart(32, '0')}-1"`;
}

/** Numbers may not start at 1: minio-js 8.0.7 counts its parts from 2. */
function numbered(parts: ReadonlyMap<string, Part>): [string, Part][] {
  return [...parts].sort(([a], [b]) => Number(a) - Number(b));
}

/** Always empty, so that no client resumes an upload. */
function listUploads({ bucket }: Target): Answer {
  const state = `<Bucket>${bucket}</Bucket><IsTruncated>false</IsTruncated>`;
  return xml(`<ListMultipartUploadsResult>${state}</ListMultipartUploadsResult>`);
}

/** Reads a body and removes the framing of aws-chunked. */
async function readPayload(request: IncomingMessage, keptBytesMax: number): Promise<Received> {
  const body = await readBody(request, { keptBytesMax });
  const decoded = request.headers['x-amz-decoded-content-length'];
  if (decoded === undefined) return body;
  return { ...body, sizeBytes: Number(decoded), start: withoutFraming(body.start) };
}

/**
 * Parses repeated "SIZE-IN-HEX[;signature]\r
 *  BYTES \r
 * ", up to size 0 or the end of the bytes.
 */
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

function checksumsOf(request: IncomingMessage): Record<string, string> {
  const entries = Object.entries(request.headers).filter(([name]) => name.startsWith('x-amz-checksum-'));
  return Object.fromEntries(entries) as Record<string, string>;
}
