/**
 * A minimal Google Cloud Storage. The JSON API has objects, listings and uploads, in one request
 * and resumable. The XML API has single objects and uploads in parts.
 */

import type { IncomingMessage } from 'node:http';
import { crc32c } from '@holdfast/core';
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
  json,
  rangeHeaders,
  rangeOf,
  readBody,
  xml,
} from './messages.ts';

const LIST_PAGE_NAMES = 1000;
/** A request that contains both metadata and bytes is parsed in memory. */
const RELATED_BYTES_MAX = 256 * KEPT_BYTES_MAX;

export function gcsDialect(contents: Contents, counter: Counter): Dialect {
  const server = new GcsAnswers(contents, counter);
  return (request) => server.answer(request);
}

interface Call {
  readonly request: IncomingMessage;
  readonly method: string;
  readonly bucket: string;
  /** Empty for the bucket itself. */
  readonly name: string;
  readonly query: URLSearchParams;
}

class GcsAnswers {
  readonly #contents: Contents;
  readonly #counter: Counter;
  /** Resumable uploads in progress, with the names of their objects. */
  readonly #sessions = new Map<string, Pick<Call, 'bucket' | 'name'>>();

  constructor(contents: Contents, counter: Counter) {
    this.#contents = contents;
    this.#counter = counter;
  }

  async answer(request: IncomingMessage): Promise<Answer> {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://server');
    const method = request.method ?? '';
    const found = /^\/(upload\/|download\/)?storage\/v1\/b\/([^/]+)(?:\/o(?:\/(.*))?)?$/.exec(pathname);
    if (found === null) {
      const [, bucket = '', ...rest] = pathname.split('/');
      return this.#xmlAnswer({ request, method, bucket, name: decodeURIComponent(rest.join('/')), query });
    }
    const [, way = '', bucket = '', name = ''] = found;
    const call = { request, method, bucket, name: decodeURIComponent(name), query };
    return way === 'upload/' ? this.#upload(call) : this.#jsonAnswer(call);
  }

  #jsonAnswer(call: Call): Answer {
    const { method, bucket, name, query } = call;
    if (name === '')
      return method === 'GET' ? this.#list(call) : json({ kind: 'storage#bucket', name: bucket });
    if (method === 'DELETE')
      return this.#contents.objects.delete(name) ? { status: 204 } : refusal(404, 'notFound');
    if (method !== 'GET') return refusal(405, 'methodNotAllowed');
    const object = this.#contents.objects.get(name);
    if (object === undefined) return refusal(404, 'notFound');
    return query.get('alt') === 'media' ? this.#media(call, object) : json(resourceOf(bucket, name, object));
  }

  async #upload(call: Call): Promise<Answer> {
    const { request, bucket, query } = call;
    const session = query.get('upload_id');
    if (session !== null) return this.#resume(session, request);
    this.#counter.noteChecksums(request);
    if (query.get('uploadType') === 'resumable') return this.#beginSession(call);
    const { start: raw } = await readBody(request, { keptBytesMax: RELATED_BYTES_MAX });
    const { metadata, bytes } = takeApart(raw, request.headers['content-type'] ?? '');
    const name = query.get('name') ?? String(metadata['name']);
    if (query.get('ifGenerationMatch') === '0' && this.#contents.objects.has(name))
      return refusal(412, 'conditionNotMet');
    const body = { sizeBytes: bytes.length, start: bytes, crc32c: crc32c(bytes) };
    return json(resourceOf(bucket, name, this.#contents.put(name, body)));
  }

  async #beginSession({ request, bucket, query }: Call): Promise<Answer> {
    const { start } = await readBody(request, { keptBytesMax: KEPT_BYTES_MAX });
    const metadata = start.length > 0 ? (JSON.parse(start.toString('utf8')) as { name?: string }) : {};
    const id = `session-${this.#contents.newVersion()}`;
    this.#sessions.set(id, { bucket, name: query.get('name') ?? metadata.name ?? '' });
    const location = `http://${request.headers.host}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${id}`;
    return { ...json({}), headers: { location } };
  }

  /** Receives the complete object in one request, as a client without chunks sends it. */
  async #resume(id: string, request: IncomingMessage): Promise<Answer> {
    this.#counter.noteChecksums(request);
    const body = await readPayload(request, KEPT_BYTES_MAX);
    const session = this.#sessions.get(id);
    if (session === undefined) return refusal(404, 'notFound');
    this.#sessions.delete(id);
    return json(resourceOf(session.bucket, session.name, this.#contents.put(session.name, body)));
  }

  #media({ request, method, query }: Call, object: StoredObject): Answer {
    const { sizeBytes } = object;
    const wanted = query.get('ifGenerationMatch') ?? query.get('generation');
    if (wanted !== null && wanted !== String(object.version)) return refusal(412, 'conditionNotMet');
    if (method === 'GET') this.#counter.noteChecksums(request);
    const range = rangeOf(request.headers.range, sizeBytes);
    if (range.isPart && range.startBytes >= sizeBytes) return refusal(416, 'requestedRangeNotSatisfiable');
    const headers = { ...rangeHeaders(range, sizeBytes), ...headersOf(object) };
    return { status: range.isPart ? 206 : 200, headers, body: this.#contents.pieces(object, range) };
  }

  #list({ bucket, query }: Call): Answer {
    const token = query.get('pageToken');
    const startOffset = query.get('startOffset') ?? '';
    const isWanted = (name: string) => name >= startOffset && (token === null || name > token);
    const limit = Math.min(Number(query.get('maxResults') ?? LIST_PAGE_NAMES), LIST_PAGE_NAMES);
    const names = this.#contents.keys(query.get('prefix') ?? '', isWanted, limit + 1);
    const page = names.slice(0, limit);
    const items = page.map((name) =>
      resourceOf(bucket, name, this.#contents.objects.get(name) as StoredObject),
    );
    const hasMore = names.length > page.length;
    return json({ kind: 'storage#objects', items, ...(hasMore && { nextPageToken: page.at(-1) }) });
  }

  async #xmlAnswer(call: Call): Promise<Answer> {
    const { request, method, name, query } = call;
    const id = query.get('uploadId');
    if (method === 'POST' && query.has('uploads')) return this.#beginUpload(call);
    if (id !== null) return this.#uploadAnswer(call, id);
    if (method === 'PUT') {
      this.#counter.noteChecksums(request);
      const object = this.#contents.put(name, await readPayload(request, KEPT_BYTES_MAX));
      return { status: 200, headers: headersOf(object) };
    }
    const object = this.#contents.objects.get(name);
    if (object === undefined) return xmlRefusal(404, 'NoSuchKey');
    return method === 'GET' || method === 'HEAD'
      ? this.#media(call, object)
      : xmlRefusal(405, 'MethodNotAllowed');
  }

  #beginUpload({ bucket, name }: Call): Answer {
    const id = `upload-${this.#contents.newVersion()}`;
    this.#contents.uploads.set(id, new Map());
    const names = `<Bucket>${bucket}</Bucket><Key>${escaped(name)}</Key><UploadId>${id}</UploadId>`;
    return xml(`<InitiateMultipartUploadResult>${names}</InitiateMultipartUploadResult>`);
  }

  async #uploadAnswer({ request, method, bucket, name, query }: Call, id: string): Promise<Answer> {
    const parts = this.#contents.uploads.get(id);
    if (method === 'PUT') {
      this.#counter.noteChecksums(request);
      const body = await readPayload(request, SAMPLE_BYTES);
      if (parts === undefined) return xmlRefusal(404, 'NoSuchUpload');
      const part = this.#contents.part(body);
      parts.set(query.get('partNumber') ?? '', part);
      return { status: 200, headers: { etag: `"${part.version}"`, 'x-goog-hash': hashOf(part) } };
    }
    if (parts === undefined) return xmlRefusal(404, 'NoSuchUpload');
    if (method === 'GET') return listParts(name, parts);
    this.#contents.uploads.delete(id);
    if (method === 'DELETE') return { status: 204 };
    await readBody(request, { keptBytesMax: 0 });
    const object = this.#contents.putParts(
      name,
      numbered(parts).map(([, part]) => part),
    );
    const names = `<Bucket>${bucket}</Bucket><Key>${escaped(name)}</Key><ETag>&quot;${object.version}&quot;</ETag>`;
    const done = xml(`<CompleteMultipartUploadResult>${names}</CompleteMultipartUploadResult>`);
    return { ...done, headers: { ...done.headers, ...headersOf(object) } };
  }
}

function readPayload(request: IncomingMessage, keptBytesMax: number): Promise<Received> {
  return readBody(request, { keptBytesMax, crc32c });
}

function crcText(value: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes.toString('base64');
}

function hashOf({ crc32c: value }: { readonly crc32c: number }): string {
  return `crc32c=${crcText(value)}`;
}

function headersOf(object: StoredObject): Record<string, string> {
  return {
    etag: `"${object.version}"`,
    'last-modified': object.modified.toUTCString(),
    'x-goog-generation': String(object.version),
    'x-goog-metageneration': '1',
    'x-goog-hash': hashOf(object),
    'x-goog-stored-content-encoding': 'identity',
    'x-goog-stored-content-length': String(object.sizeBytes),
  };
}

function resourceOf(bucket: string, name: string, object: StoredObject): object {
  const time = object.modified.toISOString();
  return {
    kind: 'storage#object',
    bucket,
    name,
    generation: String(object.version),
    metageneration: '1',
    size: String(object.sizeBytes),
    crc32c: crcText(object.crc32c),
    etag: String(object.version),
    storageClass: 'STANDARD',
    timeCreated: time,
    updated: time,
  };
}

function refusal(status: number, reason: string): Answer {
  return json({ error: { code: status, message: reason, errors: [{ reason, message: reason }] } }, status);
}

function xmlRefusal(status: number, code: string): Answer {
  return xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`, status);
}

function numbered(parts: ReadonlyMap<string, Part>): [string, Part][] {
  return [...parts].sort(([a], [b]) => Number(a) - Number(b));
}

function listParts(name: string, parts: ReadonlyMap<string, Part>): Answer {
  const rows = numbered(parts).map(([number, { version, sizeBytes }]) => {
    const facts = `<ETag>&quot;${version}&quot;</ETag><Size>${sizeBytes}</Size>`;
    return `<Part><PartNumber>${number}</PartNumber>${facts}</Part>`;
  });
  const head = `<Key>${escaped(name)}</Key><IsTruncated>false</IsTruncated>`;
  return xml(`<ListPartsResult>${head}${rows.join('')}</ListPartsResult>`);
}

/** Metadata and bytes from a body of type multipart/related (RFC 2387) with these two parts. */
function takeApart(raw: Buffer, contentType: string): { metadata: Record<string, unknown>; bytes: Buffer } {
  const boundary = /boundary="?([^";]+)"?/.exec(contentType)?.[1];
  if (boundary === undefined) throw new Error(`an upload of type ${contentType}, not multipart/related`);
  const delimiter = `\r\n--${boundary}`;
  const metadataAt = raw.indexOf('\r\n\r\n') + 4;
  const metadataEnd = raw.indexOf(delimiter, metadataAt);
  const bytesAt = raw.indexOf('\r\n\r\n', metadataEnd + delimiter.length) + 4;
  const bytesEnd = raw.lastIndexOf(delimiter);
  return {
    metadata: JSON.parse(raw.toString('utf8', metadataAt, metadataEnd)) as Record<string, unknown>,
    bytes: raw.subarray(bytesAt, bytesEnd),
  };
}
