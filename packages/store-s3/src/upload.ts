import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListPartsCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
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
  type UploadHome,
  type UploadToken,
} from '@holdfast/cloud-http';
import type { CallOptions, ObjectInfo, PartOptions, PartReceipt } from '@holdfast/core/contract';
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
    const { output, headers } = await home.connection.command(signal, (sdk, options) =>
      sdk.send(
        new CreateMultipartUploadCommand({
          Bucket: home.config.bucket,
          Key: path,
          ...(checksum !== 'none' && { ChecksumAlgorithm: 'CRC32C' }),
          ...(checksum === 'full' && { ChecksumType: 'FULL_OBJECT' }),
        }),
        options,
      ),
    );
    if (!output.UploadId) throw foreignSuccess({ status: 200, headers });
    return new S3Upload(home, path, { key, uploadId: output.UploadId, partSizeBytes, checksum });
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
  /** Names the upload in each request. */
  readonly #names: { readonly Bucket: string; readonly Key: string; readonly UploadId: string };
  readonly #checksum: S3Config['checksum'];

  constructor(home: S3UploadHome, path: string, token: Token) {
    super(home, token);
    this.#connection = home.connection;
    this.#names = { Bucket: home.config.bucket, Key: path, UploadId: token.uploadId };
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
      const { output, headers } = await this.#connection.command(signal, (sdk, options) =>
        sdk.send(
          new UploadPartCopyCommand({
            ...this.#names,
            PartNumber: index + 1,
            CopySource: source,
            CopySourceRange: `bytes=${start}-${end - 1}`,
          }),
          options,
        ),
      );
      const { ETag: etag, ChecksumCRC32C: checksum } = output.CopyPartResult ?? {};
      if (!etag) throw foreignSuccess({ status: 200, headers });
      const crc32c = crcOfBase64(checksum);
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
      key: this.#names.Key,
      query: { partNumber: String(index + 1), uploadId: this.#names.UploadId },
      headers: hasChecksum ? { 'x-amz-checksum-crc32c': base64Crc(crc32c) } : {},
      body: bytes,
      isRepeatable: true,
      onBytes,
      signal,
    });
    return { ...(hasChecksum && { crc32c }), etag: plainEtag(headers.etag) };
  }

  protected async partsPage(
    position: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PartsPage> {
    const marker = position !== undefined && { PartNumberMarker: position };
    const { output } = await this.#connection.command(signal, (sdk, options) =>
      sdk.send(new ListPartsCommand({ ...this.#names, ...marker }), options),
    );
    const { Parts = [], IsTruncated, NextPartNumberMarker: next } = output;
    const parts = Parts.map(({ PartNumber = 0, Size: sizeBytes = 0, ...part }) => {
      const crc32c = crcOfBase64(part.ChecksumCRC32C);
      const etag = plainEtag(part.ETag);
      return {
        index: PartNumber - 1,
        sizeBytes,
        ...(crc32c === undefined ? md5OfEtag(etag) : { crc32c }),
        etag,
      };
    });
    return { parts, next: IsTruncated ? nextPosition(position ?? '', next ?? position ?? '') : undefined };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    { sizeBytes, crc32c, signal }: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    const hasCrcs = this.#checksum !== 'none';
    const Parts = parts.map((part) => ({
      PartNumber: part.index + 1,
      ETag: part.etag,
      ...(hasCrcs && part.crc32c !== undefined && { ChecksumCRC32C: base64Crc(part.crc32c) }),
    }));
    const { output, headers } = await this.#connection.command(signal, (sdk, options) =>
      sdk.send(
        new CompleteMultipartUploadCommand({
          ...this.#names,
          MultipartUpload: { Parts },
          ...(this.#checksum === 'full' && {
            ChecksumType: 'FULL_OBJECT',
            // For zero bytes MinIO computes an invalid checksum.
            ...(sizeBytes > 0 && crc32c !== undefined && { ChecksumCRC32C: base64Crc(crc32c) }),
            MpuObjectSize: sizeBytes,
          }),
        }),
        options,
      ),
    );
    return { sizeBytes, etag: plainEtag(output.ETag), createdAtMs: dateMs(headers.date) };
  }

  protected async sendAbort(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.command(signal, (sdk, options) =>
        sdk.send(new AbortMultipartUploadCommand(this.#names), options),
      );
    } catch (error) {
      if (!(error instanceof S3Refusal && error.code === 'NoSuchUpload')) throw error;
    }
  }
}
