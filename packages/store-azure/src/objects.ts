/** Requests about the blobs of one container. */

import {
  base64Crc,
  crcOfBase64,
  dateMs,
  type ObjectPlace,
  type ObjectRequests,
  objectError,
  plainEtag,
  type ReadAnswer,
  type ReadRequest,
  rootOf,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import type { CreateOptions, ObjectInfo } from '@holdfast/core/contract';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal, foreignSuccess } from './errors.ts';
import { md5Header } from './headers.ts';

export class AzureObjects implements ObjectRequests {
  readonly #config: AzureConfig;
  readonly #connection: AzureConnection;

  constructor(config: AzureConfig, connection: AzureConnection) {
    this.#config = config;
    this.#connection = connection;
  }

  async create(
    { path }: ObjectPlace,
    bytes: Uint8Array,
    { crc32c, onBytes, signal }: CreateOptions,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    const answer = await this.#connection.send({
      operation: 'create',
      method: 'PUT',
      blob: path,
      headers: {
        'if-none-match': '*',
        ...(crc32c !== undefined && { 'x-ms-meta-crc32c': base64Crc(crc32c) }),
        ...md5Header(this.#config, bytes),
      },
      body: bytes,
      onBytes,
      signal,
    });
    return writtenBlob(answer, bytes.byteLength);
  }

  async head(place: ObjectPlace, signal: AbortSignal | undefined): Promise<Omit<ObjectInfo, 'key'>> {
    const { path } = place;
    const request = { operation: 'read', method: 'HEAD', blob: path, isRepeatable: true, signal } as const;
    const answer = await this.#connection.send(request);
    const { etag, 'content-length': sizeBytes, 'x-ms-meta-crc32c': crc32c } = answer.headers;
    if (sizeBytes === undefined || etag === undefined) throw foreignSuccess(answer);
    this.#assertNoDirectory(place, answer.headers);
    return {
      sizeBytes: Number(sizeBytes),
      etag: plainEtag(etag),
      createdAtMs: createdAtMs(answer),
      crc32c: crcOfBase64(crc32c),
    };
  }

  async read(place: ObjectPlace, { etag, range, ...options }: ReadRequest): Promise<ReadAnswer> {
    const answer = await this.#connection.send({
      operation: 'read',
      method: 'GET',
      blob: place.path,
      headers: {
        ...(range !== undefined && { 'x-ms-range': range }),
        ...(etag !== undefined && { 'if-match': `"${etag}"` }),
      },
      isRepeatable: true,
      ...options,
    });
    if (range === undefined) this.#assertNoDirectory(place, answer.headers);
    const { etag: found } = answer.headers;
    if (found === undefined) throw foreignSuccess(answer);
    return { ...answer, etag: plainEtag(found), createdAtMs: createdAtMs(answer) };
  }

  /**
   * At its beginning, the blob is empty or a directory. Azurite (3.36) answers for an empty blob
   * with 206 and no range.
   */
  async isAtEnd(
    error: unknown,
    place: ObjectPlace,
    offsetBytes: number,
    signal?: AbortSignal,
  ): Promise<boolean> {
    const isRefused = error instanceof AzureRefusal && error.status === 416;
    if (isRefused && offsetBytes > 0) return true;
    const mayBeEmpty = isRefused || rootOf(error).code === 'RANGE_MISMATCH';
    return mayBeEmpty && (await this.head(place, signal)).sizeBytes === 0;
  }

  async remove({ path }: ObjectPlace, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.send({
        operation: 'other',
        method: 'DELETE',
        blob: path,
        headers: { 'x-ms-delete-snapshots': 'include' },
        isRepeatable: true,
        signal,
      });
    } catch (error) {
      if (!(error instanceof AzureRefusal && error.code === 'BlobNotFound')) throw error;
    }
  }

  /** Accounts with a hierarchical namespace show directories as if they were blobs. */
  #assertNoDirectory({ key }: ObjectPlace, headers: TransportAnswer['headers']): void {
    const isDirectory =
      headers['x-ms-resource-type'] === 'directory' || headers['x-ms-meta-hdi_isfolder'] === 'true';
    if (isDirectory) throw objectError('NotFound', { store: this.#config.uri, key }, 'does not exist');
  }
}

/** Describes a blob by the answer to the request that made it. */
export function writtenBlob(answer: TransportAnswer, sizeBytes: number): Omit<ObjectInfo, 'key'> {
  const { etag } = answer.headers;
  if (etag === undefined) throw foreignSuccess(answer);
  return { sizeBytes, etag: plainEtag(etag), createdAtMs: createdAtMs(answer) };
}

function createdAtMs({ headers }: TransportAnswer): number {
  return dateMs(headers['last-modified'] ?? headers['date']);
}
