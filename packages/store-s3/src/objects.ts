/** Requests about the objects of one bucket. */

import { DeleteObjectCommand, DeleteObjectsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import {
  type BucketPage,
  base64Crc,
  brokenAnswer,
  conceal,
  crcOfBase64,
  dateMs,
  nextPosition,
  type ObjectPlace,
  type ObjectRequests,
  type PageRequest,
  plainEtag,
  type ReadAnswer,
  type ReadRequest,
} from '@holdfast/cloud-http';
import type { CreateOptions, ObjectInfo } from '@holdfast/core/contract';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { foreignSuccess, itemRefusal, S3Refusal } from './errors.ts';

/** Answers of stores that have no batch delete, or that require a digest the SDK does not send. */
const NO_BATCH_DELETE = [
  'NotImplemented',
  'MethodNotAllowed',
  'MissingContentMD5',
  'InvalidRequest',
  'MalformedXML',
];

export class S3Objects implements ObjectRequests {
  readonly #config: S3Config;
  readonly #connection: S3Connection;
  #hasBatchDelete = true;

  constructor(config: S3Config, connection: S3Connection) {
    this.#config = config;
    this.#connection = connection;
  }

  async create(
    { path }: ObjectPlace,
    bytes: Uint8Array,
    { crc32c, onBytes, signal }: CreateOptions,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    const hasChecksum = crc32c !== undefined && this.#config.checksum !== 'none';
    const answer = await this.#connection.send({
      operation: 'create',
      method: 'PUT',
      key: path,
      headers: { 'if-none-match': '*', ...(hasChecksum && { 'x-amz-checksum-crc32c': base64Crc(crc32c) }) },
      body: bytes,
      onBytes,
      signal,
    });
    const { etag, date } = answer.headers;
    if (etag === undefined) throw foreignSuccess(answer);
    return { sizeBytes: bytes.byteLength, etag: plainEtag(etag), createdAtMs: dateMs(date) };
  }

  async head({ path }: ObjectPlace, signal: AbortSignal | undefined): Promise<Omit<ObjectInfo, 'key'>> {
    const answer = await this.#connection.send({
      operation: 'read',
      method: 'HEAD',
      key: path,
      headers: this.#config.checksum === 'none' ? {} : { 'x-amz-checksum-mode': 'ENABLED' },
      isRepeatable: true,
      signal,
    });
    const { etag, 'content-length': sizeBytes, 'last-modified': lastModified } = answer.headers;
    if (sizeBytes === undefined || etag === undefined) throw foreignSuccess(answer);
    // Some stores have only a checksum of the parts' checksums.
    const isWhole = answer.headers['x-amz-checksum-type'] !== 'COMPOSITE';
    return {
      sizeBytes: Number(sizeBytes),
      etag: plainEtag(etag),
      createdAtMs: dateMs(lastModified),
      crc32c: isWhole ? crcOfBase64(answer.headers['x-amz-checksum-crc32c']) : undefined,
    };
  }

  async read({ path }: ObjectPlace, { etag, range, ...options }: ReadRequest): Promise<ReadAnswer> {
    const answer = await this.#connection.send({
      operation: 'read',
      method: 'GET',
      key: path,
      headers: {
        ...(range !== undefined && { range }),
        ...(etag !== undefined && { 'if-match': `"${etag}"` }),
      },
      isRepeatable: true,
      ...options,
    });
    const { etag: found, 'last-modified': lastModified } = answer.headers;
    return {
      ...answer,
      etag: found === undefined ? undefined : plainEtag(found),
      createdAtMs: dateMs(lastModified),
    };
  }

  async remove({ path }: ObjectPlace, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.command(signal, (sdk, options) =>
        sdk.send(new DeleteObjectCommand({ Bucket: this.#config.bucket, Key: path }), options),
      );
    } catch (error) {
      if (!(error instanceof S3Refusal && error.code === 'NoSuchKey')) throw error;
    }
  }

  /** Null: the store has no batch delete. Otherwise the refusals, by path. */
  async removeBatch(
    places: readonly ObjectPlace[],
    signal: AbortSignal | undefined,
  ): Promise<ReadonlyMap<string, S3Refusal> | null> {
    if (!this.#hasBatchDelete) return null;
    const Objects = places.map(({ path }) => ({ Key: path }));
    const Delete = { Quiet: true, Objects };
    try {
      const { output } = await this.#connection.command(signal, (sdk, options) =>
        sdk.send(new DeleteObjectsCommand({ Bucket: this.#config.bucket, Delete }), options),
      );
      const failures = (output.Errors ?? []).filter(({ Code }) => Code !== 'NoSuchKey');
      return new Map(
        failures.map(({ Key = '', Code = '', Message = '' }) => {
          const [code = '', message = ''] = [Code, Message].map((text) =>
            conceal(text, this.#connection.secrets),
          );
          return [Key, itemRefusal(code, message)];
        }),
      );
    } catch (error) {
      if (!(error instanceof S3Refusal) || !NO_BATCH_DELETE.includes(error.code)) throw error;
      this.#hasBatchDelete = false;
      return null;
    }
  }

  async page(
    { prefix, startAfter, position }: PageRequest,
    signal: AbortSignal | undefined,
  ): Promise<BucketPage> {
    const begin =
      position !== undefined
        ? { ContinuationToken: position }
        : startAfter !== undefined && { StartAfter: startAfter };
    const { output, headers } = await this.#connection.command(signal, (sdk, options) =>
      sdk.send(new ListObjectsV2Command({ Bucket: this.#config.bucket, Prefix: prefix, ...begin }), options),
    );
    const { Contents = [], KeyCount = 0, IsTruncated, NextContinuationToken } = output;
    if (KeyCount > Contents.length) throw brokenAnswer('it has fewer objects than it claims');
    if (IsTruncated === undefined) throw brokenAnswer('it does not say whether it is the last page');
    if (Contents.some(({ Key }) => Key?.startsWith(prefix) !== true))
      throw brokenAnswer('it has a name outside the prefix that was asked for');
    // Without a token, the page counts as its own next one.
    const next = IsTruncated
      ? nextPosition(position ?? '', NextContinuationToken ?? position ?? '')
      : undefined;
    const objects = Contents.map(({ Key = '', Size = 0, ETag, LastModified }) => ({
      key: Key,
      sizeBytes: Size,
      etag: plainEtag(ETag),
      createdAtMs: LastModified?.getTime() ?? 0,
    }));
    return { objects, next, storeTimeMs: dateMs(headers.date) };
  }
}
