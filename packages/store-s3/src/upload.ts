import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListPartsCommand,
  type ListPartsOutput,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import {
  assertComplete,
  assertPart,
  assertPartSize,
  base64Crc,
  crcOfBase64,
  dateMs,
  decodeToken,
  encodeToken,
  isTokenPartSize,
  md5OfEtag,
  objectError,
  plainEtag,
  type StoreCalls,
} from '@holdfast/cloud-http';
import type {
  CallOptions,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  StoreCapabilities,
  Upload,
} from '@holdfast/core/contract';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { foreignSuccess, S3Refusal } from './errors.ts';

/** State that uploads share with their store. */
export interface UploadParts {
  readonly config: S3Config;
  readonly connection: S3Connection;
  readonly capabilities: StoreCapabilities;
  /** Lowered from `full` to `parts` when the store rejects a checksum of whole objects. */
  checksum: S3Config['checksum'];
  /** Set to false when the store does not return checksums of parts that it copies. */
  checksumsCopies: boolean;
  readonly calls: StoreCalls;
}

/** The key as the engine knows it, and as it is in the bucket. */
interface Place {
  readonly key: string;
  readonly path: string;
}

/** Encoded as JSON in base64url. */
export interface Token {
  readonly key: string;
  readonly uploadId: string;
  readonly partSizeBytes: number;
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
  store: UploadParts,
  { key, path }: Place,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<S3Upload> {
  assertPartSize({ store: store.config.uri, key }, store.capabilities, partSizeBytes);
  const begin = async (checksum: S3Config['checksum']) => {
    const { output, headers } = await store.connection.command(signal, (sdk, options) =>
      sdk.send(
        new CreateMultipartUploadCommand({
          Bucket: store.config.bucket,
          Key: path,
          ...(checksum !== 'none' && { ChecksumAlgorithm: 'CRC32C' }),
          ...(checksum === 'full' && { ChecksumType: 'FULL_OBJECT' }),
        }),
        options,
      ),
    );
    if (!output.UploadId) throw foreignSuccess(200, headers);
    return new S3Upload(store, path, { key, uploadId: output.UploadId, partSizeBytes, checksum });
  };
  try {
    return await begin(store.checksum);
  } catch (error) {
    const isRefused = error instanceof S3Refusal && NO_FULL_CHECKSUM.includes(error.code);
    if (!isRefused || store.checksum !== 'full') throw error;
    const upload = await begin('parts');
    store.checksum = 'parts';
    return upload;
  }
}

export async function resumeUpload(
  store: UploadParts,
  pathOf: (key: string) => string,
  text: string,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const token = decodeToken<Token>(
    { store: store.config.uri },
    text,
    ({ key, uploadId, partSizeBytes, checksum }) =>
      typeof key === 'string' &&
      typeof uploadId === 'string' &&
      uploadId !== '' &&
      isTokenPartSize(store.capabilities, partSizeBytes) &&
      (checksum === 'full' || checksum === 'parts' || checksum === 'none'),
  );
  const upload = new S3Upload(store, pathOf(token.key), token);
  await upload.listParts({ signal }); // Fails if the upload is gone.
  return upload;
}

export class S3Upload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #store: UploadParts;
  readonly #path: string;
  readonly #uploadId: string;
  readonly #checksum: S3Config['checksum'];
  #isAborted = false;

  constructor(store: UploadParts, path: string, token: Token) {
    this.key = token.key;
    this.token = encodeToken(token);
    this.partSizeBytes = token.partSizeBytes;
    this.#store = store;
    this.#path = path;
    this.#uploadId = token.uploadId;
    this.#checksum = token.checksum;
  }

  putPart(index: number, bytes: Uint8Array, { crc32c, onBytes, signal }: PartOptions): Promise<PartReceipt> {
    return this.#run('send a part of', signal, async () => {
      const { maxParts } = this.#store.capabilities;
      assertPart(this.#subject, { partSizeBytes: this.partSizeBytes, maxParts }, index, bytes.byteLength);
      const { headers } = await this.#store.connection.send({
        operation: 'putPart',
        method: 'PUT',
        key: this.#path,
        query: { partNumber: String(index + 1), uploadId: this.#uploadId },
        headers: this.#checksum === 'none' ? {} : { 'x-amz-checksum-crc32c': base64Crc(crc32c) },
        body: bytes,
        isRepeatable: true,
        onBytes,
        signal,
      });
      return {
        index,
        sizeBytes: bytes.byteLength,
        ...(this.#checksum !== 'none' && { crc32c }),
        etag: plainEtag(headers.etag),
      };
    });
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
    return this.#run('copy a part of', signal, async () => {
      const { output, headers } = await this.#store.connection.command(signal, (sdk, options) =>
        sdk.send(
          new UploadPartCopyCommand({
            ...this.#names(),
            UploadId: this.#uploadId,
            PartNumber: index + 1,
            CopySource: source,
            CopySourceRange: `bytes=${start}-${end - 1}`,
          }),
          options,
        ),
      );
      const { ETag: etag, ChecksumCRC32C: checksum } = output.CopyPartResult ?? {};
      if (!etag) throw foreignSuccess(200, headers);
      const crc32c = crcOfBase64(checksum);
      return {
        index,
        sizeBytes: end - start,
        ...(crc32c !== undefined && { crc32c }),
        etag: plainEtag(etag),
      };
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.#run('list the parts of', signal, async () => {
      const parts: PartReceipt[] = [];
      let marker: string | undefined;
      do {
        const { output } = await this.#listPage(marker, signal);
        for (const part of output.Parts ?? []) {
          const crc32c = crcOfBase64(part.ChecksumCRC32C);
          const etag = plainEtag(part.ETag);
          parts.push({
            index: (part.PartNumber ?? 0) - 1,
            sizeBytes: part.Size ?? 0,
            ...(crc32c === undefined ? md5OfEtag(etag) : { crc32c }),
            etag,
          });
        }
        const next = output.IsTruncated ? output.NextPartNumberMarker : undefined;
        if (output.IsTruncated && (next === undefined || next === marker))
          throw objectError(
            'Unexpected',
            this.#subject,
            'returned a page of parts that does not name the next page',
          );
        marker = next;
      } while (marker !== undefined);
      return parts;
    });
  }

  /** Without `crc32c` the store computes a checksum that is not compared. */
  complete(
    parts: readonly PartReceipt[],
    options: Omit<CompleteOptions, 'crc32c'> & { readonly crc32c?: number | undefined },
  ): Promise<ObjectInfo> {
    return this.#run('complete', options.signal, async () => {
      if (this.#isAborted) throw objectError('NotFound', this.#subject, 'has no such upload: it was aborted');
      assertComplete(this.#subject, this.partSizeBytes, parts, options);
      const hasCrcs = this.#checksum !== 'none';
      const { output, headers } = await this.#store.connection.command(options.signal, (sdk, sendOptions) =>
        sdk.send(
          new CompleteMultipartUploadCommand({
            ...this.#names(),
            UploadId: this.#uploadId,
            MultipartUpload: {
              Parts: parts.map((part) => ({
                PartNumber: part.index + 1,
                ETag: part.etag,
                ...(hasCrcs && part.crc32c !== undefined && { ChecksumCRC32C: base64Crc(part.crc32c) }),
              })),
            },
            ...(this.#checksum === 'full' && {
              ChecksumType: 'FULL_OBJECT',
              // For zero bytes MinIO computes an invalid checksum.
              ...(options.sizeBytes > 0 &&
                options.crc32c !== undefined && { ChecksumCRC32C: base64Crc(options.crc32c) }),
              MpuObjectSize: options.sizeBytes,
            }),
          }),
          sendOptions,
        ),
      );
      return {
        key: this.key,
        sizeBytes: options.sizeBytes,
        etag: plainEtag(output.ETag),
        createdAtMs: dateMs(headers.date),
      };
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.#run('abort an upload to', signal, async () => {
      this.#isAborted = true;
      try {
        await this.#store.connection.command(signal, (sdk, options) =>
          sdk.send(new AbortMultipartUploadCommand({ ...this.#names(), UploadId: this.#uploadId }), options),
        );
      } catch (error) {
        if (!(error instanceof S3Refusal && error.code === 'NoSuchUpload')) throw error;
      }
    });
  }

  #listPage(
    marker: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<{ output: ListPartsOutput }> {
    return this.#store.connection.command(signal, (sdk, options) =>
      sdk.send(
        new ListPartsCommand({
          ...this.#names(),
          UploadId: this.#uploadId,
          ...(marker !== undefined && { PartNumberMarker: marker }),
        }),
        options,
      ),
    );
  }

  #names(): { Bucket: string; Key: string } {
    return { Bucket: this.#store.config.bucket, Key: this.#path };
  }

  #run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#store.calls.run({ action, key: this.key, signal }, work);
  }

  get #subject(): { store: string; key: string } {
    return { store: this.#store.config.uri, key: this.key };
  }
}
