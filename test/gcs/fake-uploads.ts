/** Uploads in parts of the XML API, in memory. */

import { createHash } from 'node:crypto';
import { base64Crc } from '@holdfast/cloud-http';
import { crc32c } from '@holdfast/core';
import type { Answer, SeenRequest } from '../scripted/scripted-server.ts';

/** Google sends these headers with every answer. */
export const GOOGLE_HEADERS = { 'x-guploader-uploadid': 'UPLOADER-1' } as const;

/** Minimum size of every part except the last. */
const PART_BYTES_MIN = 5 * 1024 * 1024;

/** Makes an object from the assembled bytes. `begin` is the request that began the upload. */
export type PutObject = (name: string, bytes: Buffer, begin: SeenRequest) => void;

interface FakeUpload {
  readonly name: string;
  readonly begin: SeenRequest;
  readonly beganAtMs: number;
  readonly parts: Map<number, { readonly bytes: Buffer; readonly etag: string }>;
}

/** An error of the XML API. */
export function xmlRefusal(status: number, code: string, message = `told ${code}`): Answer {
  const headers = { 'content-type': 'application/xml; charset=UTF-8', ...GOOGLE_HEADERS };
  const body = `<?xml version='1.0' encoding='UTF-8'?><Error><Code>${code}</Code><Message>${message}</Message></Error>`;
  return { status, headers, body };
}

export class FakeUploads {
  /** Page size of lists of parts and of uploads. */
  pageSize = 1000;
  readonly begun = new Map<string, FakeUpload>();
  readonly #put: PutObject;
  #count = 0;

  constructor(put: PutObject) {
    this.#put = put;
  }

  noBucket(): Answer {
    return xmlRefusal(404, 'NoSuchBucket', 'The specified bucket does not exist.');
  }

  answer(request: SeenRequest, name: string): Answer {
    const { method, query } = request;
    if (method === 'GET' && query.has('uploads')) return this.#listUploads(query);
    if (method === 'POST' && query.has('uploads')) {
      const id = `UPLOAD-${++this.#count}`;
      this.begun.set(id, { name, begin: request, beganAtMs: Date.now(), parts: new Map() });
      return xml(`<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`);
    }
    const id = query.get('uploadId') ?? '';
    const upload = this.begun.get(id);
    if (upload?.name !== name) return xmlRefusal(404, 'NoSuchUpload', 'The requested upload was not found.');
    if (method === 'PUT') return putPart(upload, request);
    if (method === 'GET') return this.#list(upload, query);
    if (method === 'POST') return this.#complete(id, upload, request);
    this.begun.delete(id);
    return { status: 204, headers: GOOGLE_HEADERS };
  }

  #listUploads(query: URLSearchParams): Answer {
    const prefix = query.get('prefix') ?? '';
    const place = (name: string, id: string) => `${name}\0${id}`;
    const after = place(query.get('key-marker') ?? '', query.get('upload-id-marker') ?? '');
    const all = [...this.begun]
      .filter(([id, { name }]) => name.startsWith(prefix) && place(name, id) > after)
      .sort(([a, { name }], [b, other]) => (place(name, a) < place(other.name, b) ? -1 : 1));
    const page = all.slice(0, this.pageSize);
    const entries = page.map(
      ([id, { name, beganAtMs }]) =>
        `<Upload><Key>${escaped(name)}</Key><UploadId>${id}</UploadId><StorageClass>STANDARD</StorageClass><Initiated>${new Date(beganAtMs).toISOString()}</Initiated></Upload>`,
    );
    const [lastId, last] = page.at(-1) ?? [];
    const isCut = page.length < all.length;
    const next = isCut
      ? `<NextKeyMarker>${escaped(last?.name ?? '')}</NextKeyMarker><NextUploadIdMarker>${lastId}</NextUploadIdMarker>`
      : '';
    return xml(
      `<ListMultipartUploadsResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Bucket>runs</Bucket><IsTruncated>${isCut}</IsTruncated>${next}${entries.join('')}</ListMultipartUploadsResult>`,
    );
  }

  #list({ parts }: FakeUpload, query: URLSearchParams): Answer {
    const after = Number(query.get('part-number-marker') ?? 0);
    const numbers = [...parts.keys()].filter((number) => number > after).sort((a, b) => a - b);
    const page = numbers.slice(0, this.pageSize);
    const entries = page.map((number) => {
      const { bytes, etag } = parts.get(number) ?? { bytes: Buffer.alloc(0), etag: '' };
      return `<Part><PartNumber>${number}</PartNumber><ETag>"${etag}"</ETag><Size>${bytes.byteLength}</Size></Part>`;
    });
    const isCut = page.length < numbers.length;
    const next = isCut ? `<NextPartNumberMarker>${page.at(-1)}</NextPartNumberMarker>` : '';
    return xml(
      `<ListPartsResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><IsTruncated>${isCut}</IsTruncated>${next}${entries.join('')}</ListPartsResult>`,
    );
  }

  #complete(id: string, { name, begin, parts }: FakeUpload, { body }: SeenRequest): Answer {
    const chosen: Buffer[] = [];
    const list = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"([^"]*)"<\/ETag>/g)];
    for (const [index, [, number, etag]] of list.entries()) {
      const part = parts.get(Number(number));
      if (part === undefined || part.etag !== etag) return xmlRefusal(400, 'InvalidPart');
      if (index < list.length - 1 && part.bytes.byteLength < PART_BYTES_MIN)
        return xmlRefusal(400, 'EntityTooSmall');
      chosen.push(part.bytes);
    }
    this.begun.delete(id);
    this.#put(name, Buffer.concat(chosen), begin);
    return xml(
      `<CompleteMultipartUploadResult><Key>${name}</Key><ETag>"whole"</ETag></CompleteMultipartUploadResult>`,
    );
  }
}

function putPart({ parts, begin }: FakeUpload, { headers, query, body }: SeenRequest): Answer {
  if (headers['x-goog-encryption-key-sha256'] !== begin.headers['x-goog-encryption-key-sha256'])
    return xmlRefusal(400, 'CustomerEncryptionKeyIsIncorrect');
  const hash = headers['x-goog-hash'];
  if (hash !== undefined && hash !== `crc32c=${base64Crc(crc32c(body))}`) return xmlRefusal(400, 'BadDigest');
  const etag = createHash('md5').update(body).digest('hex');
  parts.set(Number(query.get('partNumber')), { bytes: body, etag });
  return { headers: { ...GOOGLE_HEADERS, etag: `"${etag}"` } };
}

function xml(body: string): Answer {
  const headers = { 'content-type': 'application/xml; charset=UTF-8', ...GOOGLE_HEADERS };
  return { headers, body: `<?xml version='1.0' encoding='UTF-8'?>${body}` };
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
