/** Requests of the JSON API about the objects of one bucket. Names are relative to the bucket. */

import {
  type BucketPage,
  base64Crc,
  brokenAnswer,
  dateMs,
  HttpRefusal,
  type PageRequest,
  type ReadAnswer,
  type ReadRequest,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import type { CallOptions, CreateOptions } from '@holdfast/core/contract';
import { type GcsObject, infoOf, jsonOf, OBJECT_FIELDS, objectOf } from './answers.ts';
import type { GcsConnection } from './client.ts';
import type { GcsConfig } from './config.ts';
import { foreignSuccess, isMissingBucket } from './errors.ts';
import { CACHE_CONTROL, CONTENT_TYPE } from './headers.ts';
import { multipartRelated } from './multipart-related.ts';

/** One page of a listing. */
export interface ObjectPage {
  readonly objects: readonly GcsObject[];
  /** Only with a delimiter, which ends each. */
  readonly prefixes: readonly string[];
  readonly nextPageToken: string | undefined;
  readonly storeTimeMs: number;
}

export interface RewriteRequest extends CallOptions {
  readonly sourceBucket: string;
  readonly sourceName: string;
  readonly name: string;
  readonly rewriteToken: string | undefined;
  /** For the source: a customer-supplied key. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface RewriteAnswer {
  readonly copiedBytes: number;
  /** Present when the copy is complete. */
  readonly object: GcsObject | undefined;
  readonly rewriteToken: string | undefined;
}

function fieldsOf({ delimiter }: { readonly delimiter?: '/' | undefined }): string {
  return `kind,nextPageToken,${delimiter ? 'prefixes,' : ''}items(${OBJECT_FIELDS})`;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

/** Each page of a listing has it. */
const LISTING_KIND = 'storage#objects';

export class GcsObjects {
  readonly #connection: GcsConnection;
  readonly #config: GcsConfig;
  readonly #bucketPath: string;

  constructor(config: GcsConfig, connection: GcsConnection) {
    this.#config = config;
    this.#connection = connection;
    this.#bucketPath = `/storage/v1/b/${encodeURIComponent(config.bucket)}`;
  }

  /** Creates an object if none exists. The answer contains the store's CRC32C. */
  async create(name: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<GcsObject> {
    const { crc32c, onBytes, signal } = options;
    const metadata = {
      name,
      ...this.#newObject(),
      ...(crc32c !== undefined && { crc32c: base64Crc(crc32c) }),
    };
    const { contentType, body } = multipartRelated(metadata, bytes);
    const answer = await this.#connection.send({
      method: 'POST',
      path: `/upload${this.#bucketPath}/o`,
      query: { uploadType: 'multipart', ...this.#createQuery() },
      headers: { ...this.#connection.settings.bytes, 'content-type': contentType },
      body,
      onBytes,
      signal,
    });
    return wholeObject(answer);
  }

  async metadata(name: string, { signal }: CallOptions): Promise<GcsObject> {
    const answer = await this.#connection.send({
      method: 'GET',
      path: this.#pathOf(name),
      query: { fields: OBJECT_FIELDS },
      headers: this.#connection.settings.bytes,
      isRepeatable: true,
      signal,
    });
    return wholeObject(answer);
  }

  async read(name: string, { etag, range, ...options }: ReadRequest): Promise<ReadAnswer> {
    const answer = await this.#connection.send({
      method: 'GET',
      path: `/download${this.#pathOf(name)}`,
      query: { alt: 'media', ifGenerationMatch: etag },
      headers: {
        ...this.#connection.settings.bytes,
        // Without this, the server decompresses an object that is stored compressed. With it, the
        // object arrives compressed and is rejected.
        'accept-encoding': 'gzip',
        ...(range !== undefined && { range }),
      },
      isRepeatable: true,
      ...options,
    });
    const { 'x-goog-generation': generation, 'last-modified': lastModified } = answer.headers;
    if (generation === undefined) throw foreignSuccess(answer);
    return { ...answer, etag: generation, createdAtMs: dateMs(lastModified) };
  }

  /** False: there was none. */
  async remove(
    name: string,
    { signal, generation }: CallOptions & { generation?: string } = {},
  ): Promise<boolean> {
    try {
      await this.#connection.send({
        method: 'DELETE',
        path: this.#pathOf(name),
        query: { ifGenerationMatch: generation },
        signal,
      });
      return true;
    } catch (error) {
      const isNone = error instanceof HttpRefusal && error.status === 404 && !error.isForeign;
      if (!isNone || isMissingBucket(error)) throw error;
      return false;
    }
  }

  /** `startOffset`: first name, inclusive. */
  async page(
    query: {
      prefix: string;
      delimiter?: '/' | undefined;
      startOffset?: string | undefined;
      pageToken?: string | undefined;
    },
    { signal }: CallOptions = {},
  ): Promise<ObjectPage> {
    const answer = await this.#connection.send({
      method: 'GET',
      path: `${this.#bucketPath}/o`,
      query: { maxResults: '1000', fields: fieldsOf(query), ...query },
      isRepeatable: true,
      signal,
    });
    const { kind, items = [], nextPageToken, prefixes = [], ...others } = jsonOf(answer);
    // Without this, `{}` of any server would be an empty bucket.
    if (kind !== LISTING_KIND || !Array.isArray(items) || !isTexts(prefixes)) throw foreignSuccess(answer);
    // A changed name of a member would make the listing end too early.
    if (Object.keys(others).length > 0) throw brokenAnswer('it has a member that was not asked for');
    const objects = items.map((item) => {
      const object = objectOf(item);
      if (object === undefined) throw foreignSuccess(answer);
      return object;
    });
    const names = [...objects.map(({ name }) => name), ...prefixes];
    if (!names.every((name) => name.startsWith(query.prefix)))
      throw brokenAnswer('it has a name outside the prefix that was asked for');
    const token = typeof nextPageToken === 'string' && nextPageToken !== '' ? nextPageToken : undefined;
    // A repeated page token would make the listing endless.
    if (token !== undefined && token === query.pageToken) throw foreignSuccess(answer);
    return { objects, prefixes, nextPageToken: token, storeTimeMs: dateMs(answer.headers.date) };
  }

  /** A page whose objects are described as in all stores. `startAfter` is listed too. */
  async bucketPage(
    { prefix, delimiter, startAfter, position }: PageRequest,
    signal: AbortSignal | undefined,
  ): Promise<BucketPage> {
    const query = { prefix, delimiter, startOffset: startAfter, pageToken: position };
    const { objects, nextPageToken: next, ...page } = await this.page(query, { signal });
    return { ...page, objects: objects.map((object) => ({ key: object.name, ...infoOf(object) })), next };
  }

  /** Composes 1 to 32 objects into one, if none exists under that name. */
  async compose(name: string, sources: readonly string[], { signal }: CallOptions = {}): Promise<GcsObject> {
    const answer = await this.#connection.send({
      method: 'POST',
      path: `${this.#pathOf(name)}/compose`,
      query: this.#createQuery(),
      headers: { ...this.#connection.settings.bytes, 'content-type': 'application/json' },
      body: Buffer.from(
        JSON.stringify({
          sourceObjects: sources.map((source) => ({ name: source })),
          destination: this.#newObject(),
        }),
      ),
      signal,
    });
    return wholeObject(answer);
  }

  /** One step of a copy to a name that must not exist yet. */
  async rewrite(request: RewriteRequest): Promise<RewriteAnswer> {
    const { sourceBucket, sourceName, name, rewriteToken, headers, signal } = request;
    const { bytes } = this.#connection.settings;
    const source = `/storage/v1/b/${encodeURIComponent(sourceBucket)}/o/${encodeURIComponent(sourceName)}`;
    const { fields: _, kmsKeyName, ...query } = this.#createQuery();
    const answer = await this.#connection.send({
      method: 'POST',
      path: `${source}/rewriteTo/b/${encodeURIComponent(this.#config.bucket)}/o/${encodeURIComponent(name)}`,
      query: {
        ...query,
        destinationKmsKeyName: kmsKeyName,
        fields: `done,rewriteToken,totalBytesRewritten,resource(${OBJECT_FIELDS})`,
        rewriteToken,
      },
      headers: { ...bytes, ...headers, 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(this.#newObject())),
      signal,
    });
    return rewriteAnswer(answer);
  }

  /** Metadata of the bucket; `fields` as the JSON API expects them. */
  async bucket(fields: string, { signal }: CallOptions = {}): Promise<Record<string, unknown>> {
    const query = { fields };
    return jsonOf(
      await this.#connection.send({
        method: 'GET',
        path: this.#bucketPath,
        query,
        isRepeatable: true,
        signal,
      }),
    );
  }

  /** Returns those of `permissions` that the credentials have on the bucket. */
  async testPermissions(permissions: readonly string[], { signal }: CallOptions = {}): Promise<string[]> {
    const search = new URLSearchParams(
      permissions.map((permission): [string, string] => ['permissions', permission]),
    );
    const answer = await this.#connection.send({
      method: 'GET',
      path: `${this.#bucketPath}/iam/testPermissions?${search}`,
      isRepeatable: true,
      signal,
    });
    const { permissions: granted = [] } = jsonOf(answer);
    return Array.isArray(granted) ? granted.map(String) : [];
  }

  #pathOf(name: string): string {
    return `${this.#bucketPath}/o/${encodeURIComponent(name)}`;
  }

  /** Properties of every new object. */
  #newObject(): Record<string, string> {
    const { storageClass } = this.#config;
    return {
      contentType: CONTENT_TYPE,
      cacheControl: CACHE_CONTROL,
      ...(storageClass !== undefined && { storageClass }),
    };
  }

  #createQuery(): Record<string, string | undefined> {
    return { ifGenerationMatch: '0', kmsKeyName: this.#config.kmsKey, fields: OBJECT_FIELDS };
  }
}

function wholeObject(answer: TransportAnswer): GcsObject {
  const object = objectOf(jsonOf(answer));
  if (object === undefined) throw foreignSuccess(answer);
  return object;
}

function rewriteAnswer(answer: TransportAnswer): RewriteAnswer {
  const { done, rewriteToken, totalBytesRewritten, resource } = jsonOf(answer);
  const copiedBytes = Number(totalBytesRewritten ?? 0);
  if (done === true) {
    const object = objectOf(resource);
    if (object === undefined) throw foreignSuccess(answer);
    return { copiedBytes, object, rewriteToken: undefined };
  }
  if (typeof rewriteToken !== 'string' || rewriteToken === '') throw foreignSuccess(answer);
  return { copiedBytes, object: undefined, rewriteToken };
}
