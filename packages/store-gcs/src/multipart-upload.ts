/**
 * Multipart uploads of the XML API. Only there are parts not objects, and cost nothing when
 * discarded.
 */

import {
  assertComplete,
  assertCrcOfParts,
  assertPart,
  base64Crc,
  dateMs,
  elementsOf,
  encodeToken,
  HttpRefusal,
  md5OfEtag,
  objectError,
  plainEtag,
  type StoreSubject,
  type TransportAnswer,
  textOf,
} from '@holdfast/cloud-http';
import type {
  CallOptions,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  Upload,
} from '@holdfast/core/contract';
import type { GcsRequest } from './client.ts';
import { foreignSuccess } from './errors.ts';
import type { Place, UploadHome, UploadToken } from './upload-home.ts';
import { infoOf, xmlOf } from './values.ts';
import { written } from './written.ts';

/** Lists incomplete uploads, page by page. `prefix`: of names in the bucket. */
export async function* listMultipartUploads(
  { config, connection, calls }: UploadHome,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ name: string; uploadId: string; beganAtMs: number }, void, void> {
  let position: { key: string; uploadId: string } | undefined;
  do {
    const before = position;
    const text = await calls.run({ action: 'list the uploads of', signal }, async () => {
      const answer = await connection.send({
        method: 'GET',
        path: `/${config.bucket}`,
        query: {
          uploads: '',
          prefix: prefix === '' ? undefined : prefix,
          'max-uploads': '1000',
          'key-marker': before?.key,
          'upload-id-marker': before?.uploadId,
        },
        isRepeatable: true,
        signal,
      });
      return xmlOf(answer, /^ListMultipartUploadsResult$/);
    });
    for (const upload of elementsOf(text, 'Upload')) {
      const beganAtMs = dateMs(element(upload, 'Initiated'));
      yield { name: element(upload, 'Key'), uploadId: element(upload, 'UploadId'), beganAtMs };
    }
    const next = { key: element(text, 'NextKeyMarker'), uploadId: element(text, 'NextUploadIdMarker') };
    const goesOn = next.key !== before?.key || next.uploadId !== before.uploadId;
    position = element(text, 'IsTruncated') === 'true' && goesOn ? next : undefined;
  } while (position !== undefined);
}

export class MultipartUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #home: UploadHome;
  readonly #name: string;
  readonly #uploadId: string;
  readonly #subject: StoreSubject;
  #isAborted = false;

  constructor(home: UploadHome, name: string, token: UploadToken) {
    this.key = token.key;
    this.token = encodeToken(token);
    this.partSizeBytes = token.partSizeBytes;
    this.#home = home;
    this.#name = name;
    this.#uploadId = token.uploadId;
    this.#subject = { store: home.config.uri, key: token.key };
  }

  static async begin(
    home: UploadHome,
    { key, path }: Place,
    partSizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<MultipartUpload> {
    const { settings } = home.connection;
    const answer = await home.connection.send({
      method: 'POST',
      path: xmlPath(home.config.bucket, path),
      query: { uploads: '' },
      headers: { ...settings.newObject, ...settings.bytes },
      signal,
    });
    const uploadId = element(xmlOf(answer, /^InitiateMultipartUploadResult$/), 'UploadId');
    if (uploadId === '') throw foreignSuccess(answer);
    return new MultipartUpload(home, path, { strategy: 'multipart', key, uploadId, partSizeBytes });
  }

  putPart(index: number, bytes: Uint8Array, { crc32c, onBytes, signal }: PartOptions): Promise<PartReceipt> {
    return this.#run('send a part of', signal, async () => {
      assertPart(this.#subject, this.#limits(), index, bytes.byteLength);
      const { headers } = await this.#send({
        method: 'PUT',
        query: { partNumber: String(index + 1), uploadId: this.#uploadId },
        headers: { ...this.#home.connection.settings.bytes, 'x-goog-hash': `crc32c=${base64Crc(crc32c)}` },
        body: bytes,
        isRepeatable: true,
        onBytes,
        signal,
      });
      return { index, sizeBytes: bytes.byteLength, crc32c, etag: plainEtag(headers.etag) };
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.#run('list the parts of', signal, async () => {
      const parts: PartReceipt[] = [];
      let marker: string | undefined;
      do {
        const answer = await this.#send({
          method: 'GET',
          query: { uploadId: this.#uploadId, 'max-parts': '1000', 'part-number-marker': marker },
          isRepeatable: true,
          signal,
        });
        const text = xmlOf(answer, /^ListPartsResult$/);
        for (const part of elementsOf(text, 'Part')) parts.push(partOf(part));
        const next = element(text, 'NextPartNumberMarker');
        marker = element(text, 'IsTruncated') === 'true' && next !== marker ? next : undefined;
      } while (marker !== undefined);
      return parts;
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#run('complete', options.signal, async () => {
      if (this.#isAborted) throw this.#gone();
      assertComplete(this.#subject, this.partSizeBytes, parts, options);
      assertCrcOfParts(this.#subject, parts, options);
      await this.#send({
        method: 'POST',
        query: { uploadId: this.#uploadId },
        headers: { ...this.#home.connection.settings.bytes, 'content-type': 'application/xml' },
        body: Buffer.from(completion(parts)),
        signal: options.signal,
      });
      const object = await this.#home.objects.metadata(this.#name, options);
      return infoOf(this.key, await written(this.#home.objects, this.#subject, object, options));
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.#run('abort an upload to', signal, async () => {
      this.#isAborted = true;
      try {
        await this.#send({ method: 'DELETE', query: { uploadId: this.#uploadId }, signal });
      } catch (error) {
        if (!(error instanceof HttpRefusal && error.code === 'NoSuchUpload')) throw error;
      }
    });
  }

  #send(request: Omit<GcsRequest, 'path'>): Promise<TransportAnswer> {
    const path = xmlPath(this.#home.config.bucket, this.#name);
    return this.#home.connection.send({ ...request, path });
  }

  #run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#home.calls.run({ action, key: this.key, signal }, work);
  }

  #limits(): { partSizeBytes: number; maxParts: number } {
    return { partSizeBytes: this.partSizeBytes, maxParts: this.#home.capabilities.maxParts };
  }

  #gone(): Error {
    return objectError('NotFound', this.#subject, 'has no such upload: it was aborted');
  }
}

/** Path style, so that certificates also match buckets with dots in their names. */
function xmlPath(bucket: string, name: string): string {
  return `/${bucket}/${name.split('/').map(encodeURIComponent).join('/')}`;
}

function completion(parts: readonly PartReceipt[]): string {
  const list = parts.map(
    ({ index, etag }) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>"${escaped(etag)}"</ETag></Part>`,
  );
  return `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`;
}

function partOf(part: string): PartReceipt {
  const etag = plainEtag(element(part, 'ETag'));
  return {
    index: Number(element(part, 'PartNumber')) - 1,
    sizeBytes: Number(element(part, 'Size')),
    ...md5OfEtag(etag),
    etag,
  };
}

function element(xml: string, name: string): string {
  return textOf(xml, name) ?? '';
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}
