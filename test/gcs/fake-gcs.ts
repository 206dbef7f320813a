/**
 * A small Google Cloud Storage in memory, with the XML uploads in parts that no emulator supports.
 * It has one bucket and checks no permissions.
 */

import { base64Crc } from '@holdfast/cloud-http';
import { crc32c } from '@holdfast/core';
import type { Answer, SeenRequest } from '../scripted/scripted-server.ts';
import { FakeUploads, GOOGLE_HEADERS } from './fake-uploads.ts';

export const BUCKET = 'runs';

export interface FakeObject {
  readonly name: string;
  readonly bytes: Buffer;
  readonly generation: number;
  readonly createdAtMs: number;
  readonly crc32c: number;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** SHA-256 of the customer's key, in base64. */
  readonly keySha256: string | undefined;
}

/** An error of the JSON API. */
export function refusal(status: number, reason: string, message = `told ${reason}`): Answer {
  const error = { code: status, message, errors: [{ domain: 'global', reason, message }] };
  return json({ error }, status);
}

export function json(value: unknown, status = 200): Answer {
  const headers = { 'content-type': 'application/json; charset=UTF-8', ...GOOGLE_HEADERS };
  return { status, headers, body: JSON.stringify(value) };
}

/** A page of a listing. */
export function page(members: Readonly<Record<string, unknown>>): Answer {
  return json({ kind: 'storage#objects', ...members });
}

const NO_OBJECT = () => refusal(404, 'notFound', 'No such object: runs/it');
const CONDITION = () =>
  refusal(412, 'conditionNotMet', 'At least one of the pre-conditions you specified did not hold.');

export class FakeGcs {
  readonly objects = new Map<string, FakeObject>();
  readonly uploads = new FakeUploads((name, bytes, begin) => this.put(name, bytes, begin));
  /** Metadata of the bucket. */
  bucket: Record<string, unknown> = {};
  permissions: readonly string[] | undefined;
  /** Number of bytes that one step of a rewrite moves. */
  rewriteStepBytes = Number.POSITIVE_INFINITY;
  pageSize = 1000;
  #generation = 1_700_000_000_000_000;
  readonly #rewrites = new Map<string, number>();

  answer(request: SeenRequest): Answer {
    const [, api, version, ...path] = request.path.split('/').map(decodeURIComponent);
    if (api === 'storage' && version === 'v1') return this.#json(request, path);
    if (api === 'upload') return this.#insert(request, path[2]);
    if (api === 'download') return this.#download(request, path[4] ?? '');
    if (api !== BUCKET) return this.uploads.noBucket();
    return this.uploads.answer(request, [version, ...path].join('/'));
  }

  /** Replaces an existing object. */
  put(name: string, bytes: Buffer, request: SeenRequest, metadata: Record<string, unknown> = {}): FakeObject {
    const object: FakeObject = {
      name,
      bytes,
      generation: ++this.#generation,
      createdAtMs: Date.now(),
      crc32c: crc32c(bytes),
      metadata,
      keySha256: request.headers['x-goog-encryption-key-sha256'],
    };
    this.objects.set(name, object);
    return object;
  }

  #json(request: SeenRequest, [, bucket, kind, name, verb, ...rest]: string[]): Answer {
    const { method } = request;
    if (bucket !== BUCKET) return refusal(404, 'notFound', 'The specified bucket does not exist.');
    if (kind === undefined) return json(this.bucket);
    if (kind === 'iam') {
      const asked = request.query.getAll('permissions');
      return json({
        permissions: asked.filter((permission) => this.permissions?.includes(permission) ?? true),
      });
    }
    if (name === undefined) return this.#list(request);
    if (verb === 'compose') return this.#compose(request, name);
    if (verb === 'rewriteTo') return this.#rewrite(request, name, rest[3] ?? '');
    const object = this.objects.get(name);
    if (object === undefined) return NO_OBJECT();
    const condition = request.query.get('ifGenerationMatch');
    if (condition !== null && condition !== String(object.generation)) return CONDITION();
    if (method === 'DELETE') {
      this.objects.delete(name);
      return { status: 204, headers: GOOGLE_HEADERS };
    }
    return json(resourceOf(object));
  }

  #insert(request: SeenRequest, bucket: string | undefined): Answer {
    if (bucket !== BUCKET) return refusal(404, 'notFound', 'The specified bucket does not exist.');
    const { metadata, bytes } = partsOf(request);
    const { name, crc32c: declared } = metadata;
    if (typeof name !== 'string' || name === '') return refusal(400, 'required', 'Required');
    const calculated = base64Crc(crc32c(bytes));
    if (declared !== undefined && declared !== calculated)
      return refusal(
        400,
        'invalid',
        `Provided CRC32C "${declared}" doesn't match calculated CRC32C "${calculated}".`,
      );
    if (this.#isTaken(request, name)) return CONDITION();
    return json(resourceOf(this.put(name, bytes, request, metadata)));
  }

  #isTaken({ query }: SeenRequest, name: string): boolean {
    return query.get('ifGenerationMatch') === '0' && this.objects.has(name);
  }

  #download(request: SeenRequest, name: string): Answer {
    const object = this.objects.get(name);
    // In plain text, as the real GCS does for media.
    if (object === undefined)
      return {
        status: 404,
        headers: { ...GOOGLE_HEADERS, 'content-type': 'text/html' },
        body: `No such object: ${BUCKET}/${name}`,
      };
    const condition = request.query.get('ifGenerationMatch');
    if (condition !== null && condition !== String(object.generation)) return CONDITION();
    const key = request.headers['x-goog-encryption-key-sha256'];
    if (key !== object.keySha256) return keyRefusal(key, object);
    return rangeOf(request, object);
  }

  #list({ query }: SeenRequest): Answer {
    const prefix = query.get('prefix') ?? '';
    const from = query.get('pageToken') ?? query.get('startOffset') ?? '';
    const isFolded = query.get('delimiter') === '/';
    const fold = (name: string) => (isFolded ? folded(name, prefix) : name);
    const names = [...new Set([...this.objects.keys()].filter((name) => name.startsWith(prefix)).map(fold))]
      .filter((name) => Buffer.compare(Buffer.from(name), Buffer.from(from)) >= 0)
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const shown = names.slice(0, this.pageSize);
    const items = shown.flatMap((name) => {
      const object = this.objects.get(name);
      return object === undefined ? [] : [resourceOf(object)];
    });
    const prefixes = shown.filter((name) => !this.objects.has(name));
    return page({
      nextPageToken: names[this.pageSize],
      ...(items.length > 0 && { items }),
      ...(prefixes.length > 0 && { prefixes }),
    });
  }

  #compose(request: SeenRequest, name: string): Answer {
    const { sourceObjects = [], destination = {} } = JSON.parse(request.body.toString()) as {
      sourceObjects?: { name: string }[];
      destination?: Record<string, unknown>;
    };
    if (sourceObjects.length === 0 || sourceObjects.length > 32) return refusal(400, 'invalid');
    const sources = sourceObjects.map((source) => this.objects.get(source.name));
    const key = request.headers['x-goog-encryption-key-sha256'];
    for (const source of sources) {
      if (source === undefined) return NO_OBJECT();
      if (source.keySha256 !== key) return keyRefusal(key, source);
    }
    if (this.#isTaken(request, name)) return CONDITION();
    const bytes = Buffer.concat(sources.map((source) => source?.bytes ?? Buffer.alloc(0)));
    return json(resourceOf(this.put(name, bytes, request, destination)));
  }

  #rewrite(request: SeenRequest, sourceName: string, name: string): Answer {
    const source = this.objects.get(sourceName);
    if (source === undefined) return NO_OBJECT();
    const key = request.headers['x-goog-copy-source-encryption-key-sha256'];
    if (source.keySha256 !== key) return keyRefusal(key, source);
    if (this.#isTaken(request, name)) return CONDITION();
    const token = request.query.get('rewriteToken') ?? '';
    const { byteLength } = source.bytes;
    const copied = Math.min((this.#rewrites.get(token) ?? 0) + this.rewriteStepBytes, byteLength);
    const totals = { totalBytesRewritten: String(copied), objectSize: String(byteLength) };
    if (copied < byteLength) {
      const rewriteToken = `REWRITE-${this.#rewrites.size}`;
      this.#rewrites.set(rewriteToken, copied);
      return json({ done: false, rewriteToken, ...totals });
    }
    const metadata = JSON.parse(request.body.toString()) as Record<string, unknown>;
    return json({
      done: true,
      ...totals,
      resource: resourceOf(this.put(name, source.bytes, request, metadata)),
    });
  }
}

export function resourceOf(object: FakeObject): Record<string, unknown> {
  return {
    name: object.name,
    size: String(object.bytes.byteLength),
    generation: String(object.generation),
    timeCreated: new Date(object.createdAtMs).toISOString(),
    crc32c: base64Crc(object.crc32c),
  };
}

function keyRefusal(key: string | undefined, { keySha256 }: FakeObject): Answer {
  if (keySha256 === undefined) return refusal(400, 'resourceNotEncryptedWithCustomerEncryptionKey');
  return refusal(
    400,
    key === undefined ? 'resourceIsEncryptedWithCustomerEncryptionKey' : 'customerEncryptionKeyIsIncorrect',
  );
}

function rangeOf(
  { headers }: SeenRequest,
  { bytes, generation, createdAtMs, crc32c: crc }: FakeObject,
): Answer {
  const common = {
    ...GOOGLE_HEADERS,
    'x-goog-generation': String(generation),
    'x-goog-hash': `crc32c=${base64Crc(crc)}`,
    'last-modified': new Date(createdAtMs).toUTCString(),
    etag: `"${generation}"`,
  };
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
  if (first === undefined) return { headers: common, body: bytes };
  const total = bytes.byteLength;
  if (Number(first) >= total)
    return { status: 416, headers: { ...common, 'content-range': `bytes */${total}` }, body: '' };
  const body = bytes.subarray(Number(first), Number(last) + 1);
  const range = `bytes ${first}-${Number(first) + body.byteLength - 1}/${total}`;
  return { status: 206, headers: { ...common, 'content-range': range }, body };
}

/** The parts of an upload with `uploadType=multipart`. */
export function partsOf({ headers, body }: SeenRequest): {
  metadata: Record<string, unknown>;
  bytes: Buffer;
} {
  const boundary = /boundary=([^;]+)/.exec(headers['content-type'] ?? '')?.[1] ?? '';
  const mark = `--${boundary}`;
  const middle = body.indexOf(`\r\n${mark}`, mark.length);
  const end = body.lastIndexOf(`\r\n${mark}--`);
  const contentOf = (part: Buffer) => part.subarray(part.indexOf('\r\n\r\n') + 4);
  const metadata = JSON.parse(contentOf(body.subarray(0, middle)).toString()) as Record<string, unknown>;
  return { metadata, bytes: Buffer.from(contentOf(body.subarray(middle + 2, end))) };
}

/** A name up to the next '/' after the prefix, as a listing with a delimiter shows it. */
function folded(name: string, prefix: string): string {
  const end = name.indexOf('/', prefix.length);
  return end === -1 ? name : name.slice(0, end + 1);
}
