import {
  base64Crc,
  type Completion,
  crcOfBase64,
  dateMs,
  decodeToken,
  isTokenPartSize,
  md5OfEtag,
  nextPosition,
  type ObjectPlace,
  type PartsPage,
  PartUpload,
  plainEtag,
  textOf,
  type UploadHome,
  type UploadToken,
} from '@holdfast/cloud-http';
import type { CallOptions, ObjectInfo, PartOptions, PartReceipt } from '@holdfast/core/contract';
import { completionXml, documentOf, parsePartList } from './answers.ts';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { foreignSuccess, S3Refusal } from './errors.ts';

export interface S3UploadHome extends UploadHome {
  readonly config: S3Config;
  readonly connection: S3Connection;
  /** Lowered from `full` to `parts` when the store rejects a checksum of whole objects. */
  checksum: S3Config['checksum'];
  /** Set to false when the store does not return checksums of parts that it copies. */
  checksumsCopies: boolean;
}

/** Encoded as JSON in base64url. */
export interface Token extends UploadToken {
  readonly checksum: S3Config['checksum'];
}

/** Errors by which stores report that they have no checksum over whole objects. */
const NO_FULL_CHECKSUM = [
  'InvalidArgument',
  'InvalidRequest',
  'NotImplemented',
  'UnsupportedArgument',
  'MalformedXML',
];

export async function beginUpload(
  home: S3UploadHome,
  { key, path }: ObjectPlace,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<S3Upload> {
  const begin = async (checksum: S3Config['checksum']) => {
    const answer = await home.connection.send({
      operation: 'beginUpload',
      method: 'POST',
      key: path,
      query: { uploads: '' },
      headers: {
        ...(checksum !== 'none' && { 'x-amz-checksum-algorithm': 'CRC32C' }),
        ...(checksum === 'full' && { 'x-amz-checksum-type': 'FULL_OBJECT' }),
      },
      signal,
    });
    const xml = documentOf(answer);
    const uploadId = textOf(xml, 'UploadId');
    if (!uploadId) throw foreignSuccess(answer);
    return new S3Upload(home, path, { key, uploadId, partSizeBytes, checksum });
  };
  try {
    return await begin(home.checksum);
  } catch (error) {
    const isRefused = error instanceof S3Refusal && NO_FULL_CHECKSUM.includes(error.code);
    if (!isRefused || home.checksum !== 'full') throw error;
    const upload = await begin('parts');
    home.checksum = 'parts';
    return upload;
  }
}

/** The upload of a token. Sends nothing. */
export function uploadOf(home: S3UploadHome, placeOf: (key: string) => ObjectPlace, text: string): S3Upload {
  const token = decodeToken<Token>(
    { store: home.config.uri },
    text,
    ({ key, uploadId, partSizeBytes, checksum }) =>
      typeof key === 'string' &&
      typeof uploadId === 'string' &&
      uploadId !== '' &&
      isTokenPartSize(home.capabilities, partSizeBytes) &&
      (checksum === 'full' || checksum === 'parts' || checksum === 'none'),
  );
  return new S3Upload(home, placeOf(token.key).path, token);
}

export class S3Upload extends PartUpload {
  readonly #connection: S3Connection;
  readonly #path: string;
  readonly #uploadId: string;
  readonly #checksum: S3Config['checksum'];

  constructor(home: S3UploadHome, path: string, token: Token) {
    super(home, token);
    this.#connection = home.connection;
    this.#path = path;
    this.#uploadId = token.uploadId;
    this.#checksum = token.checksum;
  }

  /**
   * Like `putPart`, but the store takes the bytes from another object. `source` as the store
   * expects it, `end` exclusive.
   */
  copyPart(
    index: number,
    { source, start, end }: { source: string; start: number; end: number },
    { signal }: CallOptions,
  ): Promise<PartReceipt> {
    return this.run('copy a part of', signal, async () => {
      const answer = await this.#connection.send({
        operation: 'other',
        method: 'PUT',
        key: this.#path,
        query: { partNumber: String(index + 1), uploadId: this.#uploadId },
        headers: {
          'x-amz-copy-source': source,
          'x-amz-copy-source-range': `bytes=${start}-${end - 1}`,
        },
        signal,
      });
      const xml = documentOf(answer);
      const etag = textOf(xml, 'ETag');
      if (!etag) throw foreignSuccess(answer);
      const crc32c = crcOfBase64(textOf(xml, 'ChecksumCRC32C'));
      return {
        index,
        sizeBytes: end - start,
        ...(crc32c !== undefined && { crc32c }),
        etag: plainEtag(etag),
      };
    });
  }

  protected async sendPart(
    index: number,
    bytes: Uint8Array,
    { crc32c, onBytes, signal }: PartOptions,
  ): Promise<Pick<PartReceipt, 'crc32c' | 'etag'>> {
    const hasChecksum = this.#checksum !== 'none';
    const { headers } = await this.#connection.send({
      operation: 'putPart',
      method: 'PUT',
      key: this.#path,
      query: { partNumber: String(index + 1), uploadId: this.#uploadId },
      headers: hasChecksum ? { 'x-amz-checksum-crc32c': base64Crc(crc32c) } : {},
      body: bytes,
      isRepeatable: true,
      onBytes,
      signal,
    });
    // The checksum of what the store has received, which it may not have compared with ours.
    const stored = crcOfBase64(headers['x-amz-checksum-crc32c']) ?? (hasChecksum ? crc32c : undefined);
    return { ...(stored !== undefined && { crc32c: stored }), etag: plainEtag(headers.etag) };
  }

  protected async partsPage(
    position: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PartsPage> {
    const answer = await this.#connection.send({
      operation: 'listParts',
      method: 'GET',
      key: this.#path,
      query: {
        uploadId: this.#uploadId,
        ...(position !== undefined && { 'part-number-marker': position }),
      },
      isRepeatable: true,
      signal,
    });
    const list = parsePartList(documentOf(answer));
    const parts = list.parts.map(({ number, sizeBytes, etag, crc32c: checksum }) => {
      const crc32c = crcOfBase64(checksum);
      return { index: number - 1, sizeBytes, ...(crc32c === undefined ? md5OfEtag(etag) : { crc32c }), etag };
    });
    const next = list.isTruncated
      ? nextPosition(position ?? '', list.nextMarker ?? position ?? '')
      : undefined;
    return { parts, next };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    { sizeBytes, crc32c, signal }: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    const hasCrcs = this.#checksum !== 'none';
    const body = completionXml(
      parts.map((part) => ({
        number: part.index + 1,
        etag: part.etag,
        crc32c: hasCrcs && part.crc32c !== undefined ? base64Crc(part.crc32c) : undefined,
      })),
    );
    const answer = await this.#connection.send({
      operation: 'complete',
      method: 'POST',
      key: this.#path,
      query: { uploadId: this.#uploadId },
      headers: {
        'content-type': 'application/xml',
        ...(this.#checksum === 'full' && {
          'x-amz-checksum-type': 'FULL_OBJECT',
          // For zero bytes MinIO computes an invalid checksum.
          ...(sizeBytes > 0 && crc32c !== undefined && { 'x-amz-checksum-crc32c': base64Crc(crc32c) }),
          'x-amz-mp-object-size': String(sizeBytes),
        }),
      },
      body,
      signal,
    });
    const xml = documentOf(answer);
    // For zero bytes MinIO computes an invalid checksum.
    const isWhole = textOf(xml, 'ChecksumType') === 'FULL_OBJECT' && sizeBytes > 0;
    return {
      sizeBytes,
      etag: plainEtag(textOf(xml, 'ETag')),
      createdAtMs: dateMs(answer.headers['date']),
      ...(isWhole && { crc32c: crcOfBase64(textOf(xml, 'ChecksumCRC32C')) }),
    };
  }

  protected async sendAbort(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.send({
        operation: 'other',
        method: 'DELETE',
        key: this.#path,
        query: { uploadId: this.#uploadId },
        signal,
      });
    } catch (error) {
      if (!(error instanceof S3Refusal && error.code === 'NoSuchUpload')) throw error;
    }
  }
}
