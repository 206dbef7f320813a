/**
 * Multipart uploads of the XML API. Only there are parts not objects, and cost nothing when
 * discarded.
 */

import {
  assertCrcOfParts,
  base64Crc,
  type Completion,
  dateMs,
  elementsOf,
  HttpRefusal,
  md5OfEtag,
  type ObjectPlace,
  type PartsPage,
  PartUpload,
  plainEtag,
  type TransportAnswer,
  textOf,
} from '@holdfast/cloud-http';
import type { ObjectInfo, PartOptions, PartReceipt } from '@holdfast/core/contract';
import { infoOf, xmlOf } from './answers.ts';
import type { GcsRequest } from './client.ts';
import { foreignSuccess } from './errors.ts';
import type { GcsUploadHome, Token } from './upload-home.ts';
import { written } from './written.ts';

/** Lists incomplete uploads, page by page. `prefix`: of names in the bucket. */
export async function* listMultipartUploads(
  { config, connection, calls }: GcsUploadHome,
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

export class MultipartUpload extends PartUpload {
  readonly #home: GcsUploadHome;
  readonly #name: string;
  readonly #uploadId: string;

  constructor(home: GcsUploadHome, name: string, token: Token) {
    super(home, token);
    this.#home = home;
    this.#name = name;
    this.#uploadId = token.uploadId;
  }

  static async begin(
    home: GcsUploadHome,
    { key, path }: ObjectPlace,
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

  protected async sendPart(
    index: number,
    body: Uint8Array,
    { crc32c, onBytes, signal }: PartOptions,
  ): Promise<Pick<PartReceipt, 'crc32c' | 'etag'>> {
    const { headers } = await this.#send({
      method: 'PUT',
      query: { partNumber: String(index + 1) },
      headers: { ...this.#home.connection.settings.bytes, 'x-goog-hash': `crc32c=${base64Crc(crc32c)}` },
      body,
      isRepeatable: true,
      onBytes,
      signal,
    });
    return { crc32c, etag: plainEtag(headers.etag) };
  }

  protected async partsPage(
    position: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PartsPage> {
    const answer = await this.#send({
      method: 'GET',
      query: { 'max-parts': '1000', 'part-number-marker': position },
      isRepeatable: true,
      signal,
    });
    const text = xmlOf(answer, /^ListPartsResult$/);
    const isLast = element(text, 'IsTruncated') !== 'true';
    const next = isLast ? undefined : element(text, 'NextPartNumberMarker');
    return { parts: Array.from(elementsOf(text, 'Part'), partOf), next };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    options: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    assertCrcOfParts(this.subject, parts, options);
    await this.#send({
      method: 'POST',
      headers: { ...this.#home.connection.settings.bytes, 'content-type': 'application/xml' },
      body: Buffer.from(completion(parts)),
      signal: options.signal,
    });
    const object = await this.#home.objects.metadata(this.#name, options);
    return infoOf(await written(this.#home.objects, this.subject, object, options));
  }

  protected async sendAbort(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#send({ method: 'DELETE', signal });
    } catch (error) {
      if (!(error instanceof HttpRefusal && error.code === 'NoSuchUpload')) throw error;
    }
  }

  #send({ query, ...request }: Omit<GcsRequest, 'path'>): Promise<TransportAnswer> {
    const path = xmlPath(this.#home.config.bucket, this.#name);
    return this.#home.connection.send({ ...request, path, query: { uploadId: this.#uploadId, ...query } });
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
