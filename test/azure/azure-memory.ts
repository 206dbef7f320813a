/**
 * A container of Azure Blob Storage in memory. It supports what the adapter uses, with Azure's own
 * answers.
 */

import { createHash } from 'node:crypto';
import type { Answer, SeenRequest } from '../scripted/scripted-server.ts';

export interface MemoryOptions {
  /** Default: `runs`. */
  readonly container?: string;
  /** Path before the container. */
  readonly basePath?: string;
  /** Maximum number of blobs in a page of a listing. Azure returns 5,000. */
  readonly pageSize?: number;
  /** Directories exist and are listed. The content of a directory comes before its neighbours. */
  readonly isHierarchical?: boolean;
  /** Rejects server-side copies, as Azurite does. */
  readonly copiesNothing?: boolean;
}

interface Blob {
  readonly bytes: Buffer;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface AzureMemory {
  /** Committed blobs by name. */
  readonly blobs: ReadonlyMap<string, Blob>;
  /** Uncommitted blocks by name of the blob and id. */
  readonly blocks: ReadonlyMap<string, ReadonlyMap<string, Buffer>>;
  answer(request: SeenRequest): Answer;
}

/** An error as Azure sends it. `extra` adds elements and headers. */
export function refusal(
  status: number,
  code: string,
  extra: { xml?: string; headers?: Readonly<Record<string, string>>; message?: string } = {},
): Answer {
  const { xml = '', headers = {}, message = `told ${code}` } = extra;
  const told = `${message}\nRequestId:REQ1\nTime:2026-11-21T10:00:00.0000000Z`;
  return {
    status,
    headers: {
      'content-type': 'application/xml',
      'x-ms-request-id': 'REQ1',
      'x-ms-error-code': code,
      ...headers,
    },
    body: `\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>${told}</Message>${xml}</Error>`,
  };
}

export function azureMemory(options: MemoryOptions = {}): AzureMemory {
  return new Memory(options);
}

const BLOCK_IDS_BYTES_MAX = 64;
const NOT_FOUND = () => refusal(404, 'BlobNotFound', { message: 'The specified blob does not exist.' });
const EXISTS = () => refusal(409, 'BlobAlreadyExists', { message: 'The specified blob already exists.' });

class Memory implements AzureMemory {
  readonly blobs = new Map<string, Blob>();
  readonly blocks = new Map<string, Map<string, Buffer>>();
  readonly #options: Required<MemoryOptions>;
  #writes = 0;

  constructor(options: MemoryOptions) {
    this.#options = {
      container: 'runs',
      basePath: '',
      pageSize: 5000,
      isHierarchical: false,
      copiesNothing: false,
      ...options,
    };
  }

  answer(request: SeenRequest): Answer {
    const { basePath, container } = this.#options;
    const path = request.path.slice(basePath.length);
    if (path === '/') return this.#ofAccount(request);
    const [, name = '', ...rest] = path.split('/');
    if (name !== container)
      return refusal(404, 'ContainerNotFound', { message: 'The specified container does not exist.' });
    if (rest.length === 0) return this.#ofContainer(request);
    return this.#ofBlob(request, rest.map(decodeURIComponent).join('/'));
  }

  #ofAccount({ query }: SeenRequest): Answer {
    if (query.get('restype') !== 'service') return refusal(400, 'InvalidQueryParameterValue');
    const policy = '<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>';
    return xml(`<StorageServiceProperties>${policy}</StorageServiceProperties>`);
  }

  #ofContainer({ query }: SeenRequest): Answer {
    if (query.get('comp') === 'list') return this.#list(query);
    if (query.get('restype') === 'account')
      return ok(200, {
        'x-ms-sku-name': 'Standard_LRS',
        'x-ms-account-kind': 'StorageV2',
        'x-ms-is-hns-enabled': String(this.#options.isHierarchical),
      });
    return ok(200, { 'x-ms-has-immutability-policy': 'false', 'x-ms-has-legal-hold': 'false' });
  }

  #ofBlob(request: SeenRequest, name: string): Answer {
    const { method, query } = request;
    const comp = query.get('comp');
    if (method === 'PUT' && comp === 'block') return this.#putBlock(request, name);
    if (method === 'PUT' && comp === 'blocklist') return this.#putBlockList(request, name);
    if (method === 'PUT') return this.#putBlob(request, name);
    if (method === 'GET' && comp === 'blocklist') return this.#blockList(name);
    if (method === 'DELETE') return this.#delete(name);
    return this.#read(request, name);
  }

  #putBlob(request: SeenRequest, name: string): Answer {
    const { headers } = request;
    const copied = headers['x-ms-copy-source'] === undefined ? undefined : this.#sourceOf(request);
    if (copied !== undefined && !('bytes' in copied)) return copied;
    if (copied === undefined && headers['x-ms-blob-type'] !== 'BlockBlob')
      return refusal(400, 'MissingRequiredHeader');
    const fault = md5Fault(request);
    if (fault !== undefined) return fault;
    if (headers['if-none-match'] === '*' && this.blobs.has(name)) return EXISTS();
    this.blocks.delete(name);
    const own = metadataOf(headers);
    const metadata = copied !== undefined && Object.keys(own).length === 0 ? copied.metadata : own;
    const answer = this.#store(name, copied?.bytes ?? request.body, metadata);
    if (copied === undefined) return answer;
    return { ...answer, status: 202, headers: { ...answer.headers, 'x-ms-copy-status': 'success' } };
  }

  #putBlock(request: SeenRequest, name: string): Answer {
    const id = request.query.get('blockid') ?? '';
    const blocks = this.blocks.get(name) ?? new Map<string, Buffer>();
    const isId = Buffer.from(id, 'base64').toString('base64') === id;
    const idBytes = Buffer.from(id, 'base64').byteLength;
    if (!isId || idBytes === 0 || idBytes > BLOCK_IDS_BYTES_MAX)
      return refusal(400, 'InvalidQueryParameterValue');
    if ([...blocks.keys()].some((other) => other.length !== id.length))
      return refusal(400, 'InvalidBlobOrBlock');
    const source = request.headers['x-ms-copy-source'] === undefined ? undefined : this.#sourceOf(request);
    if (source !== undefined && !('bytes' in source)) return source;
    const bytes =
      source === undefined ? request.body : slice(source.bytes, request.headers['x-ms-source-range']);
    if (bytes.byteLength === 0) return refusal(400, 'InvalidHeaderValue');
    const fault = md5Fault(request);
    if (fault !== undefined) return fault;
    blocks.set(id, bytes);
    this.blocks.set(name, blocks);
    return ok(201);
  }

  #putBlockList({ headers, body }: SeenRequest, name: string): Answer {
    if (headers['if-none-match'] === '*' && this.blobs.has(name)) return EXISTS();
    const ids = [...body.toString().matchAll(/<Uncommitted>([^<]*)<\/Uncommitted>/g)].map(
      ([, id]) => id ?? '',
    );
    const blocks = this.blocks.get(name);
    const bytes = ids.map((id) => blocks?.get(id));
    if (bytes.includes(undefined)) return refusal(400, 'InvalidBlockList');
    this.blocks.delete(name);
    return this.#store(name, Buffer.concat(bytes as Buffer[]), metadataOf(headers));
  }

  #blockList(name: string): Answer {
    const blocks = this.blocks.get(name);
    if (blocks === undefined && !this.blobs.has(name)) return NOT_FOUND();
    const listed = [...(blocks ?? [])].map(
      ([id, bytes]) => `<Block><Name>${id}</Name><Size>${bytes.byteLength}</Size></Block>`,
    );
    return xml(
      listed.length === 0
        ? '<BlockList><UncommittedBlocks /></BlockList>'
        : `<BlockList><UncommittedBlocks>${listed.join('')}</UncommittedBlocks></BlockList>`,
    );
  }

  #delete(name: string): Answer {
    return this.blobs.delete(name) ? ok(202) : NOT_FOUND();
  }

  #read({ method, headers }: SeenRequest, name: string): Answer {
    const blob = this.blobs.get(name);
    if (blob === undefined) {
      if (!this.#directories().has(name)) return NOT_FOUND();
      if (headers['x-ms-range'] !== undefined) return refusal(416, 'InvalidRange');
      return ok(200, { 'content-length': '0', 'x-ms-meta-hdi_isfolder': 'true', etag: '"0x0"' });
    }
    if (headers['if-match'] !== undefined && headers['if-match'] !== blob.etag)
      return refusal(412, 'ConditionNotMet');
    const facts = {
      etag: blob.etag,
      'last-modified': new Date(blob.modifiedMs).toUTCString(),
      'x-ms-blob-type': 'BlockBlob',
      ...Object.fromEntries(Object.entries(blob.metadata).map(([key, value]) => [`x-ms-meta-${key}`, value])),
    };
    const sizeBytes = blob.bytes.byteLength;
    const range = headers['x-ms-range'];
    if (method === 'HEAD') return ok(200, { ...facts, 'content-length': String(sizeBytes) });
    if (range === undefined) return { ...ok(200, facts), body: blob.bytes };
    const bytes = slice(blob.bytes, range);
    if (bytes.byteLength === 0) return refusal(416, 'InvalidRange');
    const start = Number(/^bytes=(\d+)-/.exec(range)?.[1]);
    const found = `bytes ${start}-${start + bytes.byteLength - 1}/${sizeBytes}`;
    return { ...ok(206, { ...facts, 'content-range': found }), body: bytes };
  }

  #list(query: URLSearchParams): Answer {
    const { pageSize } = this.#options;
    const prefix = query.get('prefix') ?? '';
    const from = query.get('startFrom');
    const isUncommitted = query.get('include')?.split(',').includes('uncommittedblobs') ?? false;
    const uncommitted = isUncommitted ? [...this.blocks.keys()].filter((name) => !this.blobs.has(name)) : [];
    const isFolded = query.get('delimiter') === '/';
    const all = [...this.blobs.keys(), ...uncommitted, ...(isFolded ? [] : this.#directories())];
    const found = all.filter((name) => name.startsWith(prefix));
    const names = [...new Set(isFolded ? found.map((name) => folded(name, prefix)) : found)]
      .sort((a, b) => this.#compare(a, b))
      .filter((name) => from === null || this.#compare(name, from) >= 0);
    const marker = query.get('marker');
    // A position in the order of names. It stays valid when blobs come and go.
    const first = marker === null ? '' : Buffer.from(marker, 'base64').toString();
    const rest = marker === null ? names : names.filter((name) => this.#compare(name, first) >= 0);
    const count = Math.min(pageSize, Number(query.get('maxresults') ?? pageSize));
    const blobs = rest.slice(0, count).map((name) => this.#listed(name));
    const following = rest[count];
    const next =
      following === undefined
        ? '<NextMarker />'
        : `<NextMarker>${Buffer.from(following).toString('base64')}</NextMarker>`;
    return xml(
      `<EnumerationResults ServiceEndpoint="http://127.0.0.1/" ContainerName="runs"><Blobs>${blobs.join('')}</Blobs>${next}</EnumerationResults>`,
    );
  }

  #listed(name: string): string {
    if (name.endsWith('/')) return `<BlobPrefix><Name>${escaped(name)}</Name></BlobPrefix>`;
    const blob = this.blobs.get(name);
    if (blob === undefined && this.blocks.has(name))
      return `<Blob><Name>${escaped(name)}</Name><Properties><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>`;
    if (blob === undefined)
      return `<Blob><Name>${escaped(name)}</Name><Properties><Content-Length>0</Content-Length><ResourceType>directory</ResourceType></Properties><Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>`;
    const modified = new Date(blob.modifiedMs).toUTCString();
    const { etag, bytes } = blob;
    return `<Blob><Name>${escaped(name)}</Name><Properties><Last-Modified>${modified}</Last-Modified><Etag>${etag.replaceAll('"', '')}</Etag><Content-Length>${bytes.byteLength}</Content-Length><BlobType>BlockBlob</BlobType></Properties><OrMetadata /></Blob>`;
  }

  #directories(): Set<string> {
    const found = new Set<string>();
    if (!this.#options.isHierarchical) return found;
    for (const name of this.blobs.keys()) {
      const segments = name.split('/');
      for (let depth = 1; depth < segments.length; depth++) found.add(segments.slice(0, depth).join('/'));
    }
    return found;
  }

  /** Compares bytes. In a hierarchy it compares segment by segment. */
  #compare(a: string, b: string): number {
    const whole = (name: string) => (this.#options.isHierarchical ? name.replaceAll('/', '\0') : name);
    return Buffer.compare(Buffer.from(whole(a)), Buffer.from(whole(b)));
  }

  #sourceOf({ headers }: SeenRequest): Blob | Answer {
    if (this.#options.copiesNothing) return refusal(501, 'APINotImplemented');
    const { pathname, search } = new URL(headers['x-ms-copy-source'] ?? '');
    const isOpen = search.includes('sig=') || headers['x-ms-copy-source-authorization'] !== undefined;
    if (!isOpen) return refusal(401, 'CannotVerifyCopySource');
    const name = pathname.slice(`${this.#options.basePath}/${this.#options.container}/`.length);
    const source = this.blobs.get(name.split('/').map(decodeURIComponent).join('/'));
    if (source === undefined) return refusal(404, 'CannotVerifyCopySource');
    if (headers['x-ms-source-if-match'] !== source.etag) return refusal(412, 'SourceConditionNotMet');
    return source;
  }

  #store(name: string, bytes: Buffer, metadata: Readonly<Record<string, string>>): Answer {
    this.#writes += 1;
    const blob = { bytes, etag: `"0x8DE${this.#writes}"`, modifiedMs: Date.now(), metadata };
    this.blobs.set(name, blob);
    return ok(201, { etag: blob.etag, 'last-modified': new Date(blob.modifiedMs).toUTCString() });
  }
}

function ok(status: number, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { 'x-ms-request-id': 'REQ1', ...headers } };
}

function xml(document: string): Answer {
  const body = `\ufeff<?xml version="1.0" encoding="utf-8"?>${document}`;
  return { ...ok(200, { 'content-type': 'application/xml' }), body };
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function metadataOf(headers: Readonly<Record<string, string>>): Record<string, string> {
  const own = Object.entries(headers).filter(([name]) => name.startsWith('x-ms-meta-'));
  return Object.fromEntries(own.map(([name, value]) => [name.slice('x-ms-meta-'.length), value]));
}

function md5Fault({ headers, body }: SeenRequest): Answer | undefined {
  const told = headers['content-md5'];
  if (told === undefined || told === createHash('md5').update(body).digest('base64')) return undefined;
  return refusal(400, 'Md5Mismatch');
}

/** `range`: "bytes=first-last". */
function slice(bytes: Buffer, range: string | undefined): Buffer {
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
  return bytes.subarray(Number(first), Number(last) + 1);
}

/** A name up to the next '/' after the prefix, as a listing with a delimiter shows it. */
function folded(name: string, prefix: string): string {
  const end = name.indexOf('/', prefix.length);
  return end === -1 ? name : name.slice(0, end + 1);
}
