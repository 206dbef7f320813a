/** Requests about the objects of one bucket. */

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
  type TransportAnswer,
} from '@holdfast/cloud-http';
import type { CreateOptions, ObjectInfo } from '@holdfast/core/contract';
import { base64Crc32, deleteXml, documentOf, parseDeleteErrors, parseListing } from './answers.ts';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { foreignSuccess, itemRefusal, S3Refusal } from './errors.ts';

/** Answers of stores that have no batch delete, or that require an MD5 digest. */
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
    // The checksum of what the store has received, which it may not have compared with ours.
    const stored = crcOfBase64(answer.headers['x-amz-checksum-crc32c']);
    return { sizeBytes: bytes.byteLength, etag: plainEtag(etag), createdAtMs: dateMs(date), crc32c: stored };
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
    if (found === undefined) throw foreignSuccess(answer);
    return { ...answer, etag: plainEtag(found), createdAtMs: dateMs(lastModified) };
  }

  async remove({ path }: ObjectPlace, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.send({ operation: 'other', method: 'DELETE', key: path, signal });
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
    const body = deleteXml(places.map(({ path }) => path));
    try {
      const answer = await this.#connection.send({
        operation: 'other',
        method: 'POST',
        query: { delete: '' },
        headers: {
          'content-type': 'application/xml',
          'x-amz-sdk-checksum-algorithm': 'CRC32',
          'x-amz-checksum-crc32': base64Crc32(body),
        },
        body,
        signal,
      });
      return this.#refusalsIn(answer);
    } catch (error) {
      if (!(error instanceof S3Refusal) || !NO_BATCH_DELETE.includes(error.code)) throw error;
      this.#hasBatchDelete = false;
      return null;
    }
  }

  async page(
    { prefix, delimiter, startAfter, position }: PageRequest,
    signal: AbortSignal | undefined,
  ): Promise<BucketPage> {
    const begin: Record<string, string> =
      position !== undefined
        ? { 'continuation-token': position }
        : startAfter !== undefined
          ? { 'start-after': startAfter }
          : {};
    const answer = await this.#connection.send({
      operation: 'other',
      method: 'GET',
      query: { 'list-type': '2', prefix, ...(delimiter && { delimiter }), ...begin },
      isRepeatable: true,
      signal,
    });
    const { objects, prefixes, isTruncated, nextToken } = parseListing(documentOf(answer, LISTING));
    const names = [...objects.map(({ key }) => key), ...prefixes];
    if (names.some((name) => !name.startsWith(prefix) || name === ''))
      throw brokenAnswer('it has a name outside the prefix that was asked for');
    // Without a token, the page counts as its own next one.
    const next = isTruncated ? nextPosition(position ?? '', nextToken ?? position ?? '') : undefined;
    return { objects, prefixes, next, storeTimeMs: dateMs(answer.headers['date']) };
  }

  /** By path. An answer without a document has none. */
  #refusalsIn(answer: TransportAnswer): ReadonlyMap<string, S3Refusal> {
    if (answer.body.byteLength === 0) return new Map();
    const items = parseDeleteErrors(documentOf(answer));
    const { secrets } = this.#connection;
    return new Map(
      items
        .filter(({ code }) => code !== 'NoSuchKey')
        .map(({ key, code, message }) => [
          key,
          itemRefusal(conceal(code, secrets), conceal(message, secrets)),
        ]),
    );
  }
}

/** A listing must not be taken for another one: it would show nothing. */
const LISTING = /^(\w+:)?ListBucketResult$/;
