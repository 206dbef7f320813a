/**
 * A minimal Azure Blob Storage: block blobs in one request and in blocks, listings, deletes. The
 * account is the first segment of the path.
 */

import type { IncomingMessage } from 'node:http';
import { type Contents, KEPT_BYTES_MAX, type Part, SAMPLE_BYTES, type StoredObject } from './contents.ts';
import type { Counter } from './counter.ts';
import { type Answer, type Dialect, escaped, rangeHeaders, rangeOf, readBody, xml } from './messages.ts';

const LIST_PAGE_NAMES = 5000;
const API_VERSION = '2025-11-05';

export function azureDialect(contents: Contents, counter: Counter): Dialect {
  const server = new AzureAnswers(contents, counter);
  return async (request) => {
    const answer = await server.answer(request);
    return { ...answer, headers: { ...answer.headers, 'x-ms-version': API_VERSION } };
  };
}

class AzureAnswers {
  readonly #contents: Contents;
  readonly #counter: Counter;

  constructor(contents: Contents, counter: Counter) {
    this.#contents = contents;
    this.#counter = counter;
  }

  async answer(request: IncomingMessage): Promise<Answer> {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://server');
    const [, , container = '', ...rest] = pathname.split('/');
    const name = decodeURIComponent(rest.join('/'));
    const comp = query.get('comp');
    const method = request.method ?? '';
    if (comp === 'properties') return { status: 200, headers: ACCOUNT_HEADERS };
    if (name === '') return comp === 'list' ? this.#list(container, query) : containerAnswer(method);
    if (method === 'PUT') return this.#put(name, query, request);
    if (comp === 'blocklist') return listBlocks(this.#contents.uploads.get(name));
    if (method === 'GET' || method === 'HEAD') return this.#get(name, request);
    if (method !== 'DELETE') return refusal(405, 'UnsupportedHttpVerb');
    return this.#contents.objects.delete(name) ? { status: 202 } : refusal(404, 'BlobNotFound');
  }

  async #put(name: string, query: URLSearchParams, request: IncomingMessage): Promise<Answer> {
    this.#counter.noteChecksums(request);
    const comp = query.get('comp');
    if (comp === 'block') {
      const blocks = this.#contents.uploads.get(name) ?? new Map<string, Part>();
      this.#contents.uploads.set(name, blocks);
      const body = await readBody(request, { keptBytesMax: SAMPLE_BYTES });
      blocks.set(query.get('blockid') ?? '', this.#contents.part(body));
      return { status: 201, headers: md5Of(request) };
    }
    const body = await readBody(request, { keptBytesMax: KEPT_BYTES_MAX });
    if (request.headers['if-none-match'] === '*' && this.#contents.objects.has(name))
      return refusal(409, 'BlobAlreadyExists');
    const metadata = metadataOf(request);
    const object =
      comp === 'blocklist'
        ? this.#commit(name, body.start.toString('utf8'), metadata)
        : this.#contents.put(name, body, metadata);
    if (object === undefined) return refusal(400, 'InvalidBlockList');
    return { status: 201, headers: { ...stateOf(object), ...md5Of(request) } };
  }

  #commit(name: string, list: string, metadata: Record<string, string>): StoredObject | undefined {
    const blocks = this.#contents.uploads.get(name);
    const ids = [...list.matchAll(/<(?:Latest|Uncommitted)>([^<]*)</g)].map(([, id = '']) => id);
    const parts = ids.map((id) => blocks?.get(id)).filter((block) => block !== undefined);
    if (parts.length < ids.length) return undefined;
    this.#contents.uploads.delete(name);
    return this.#contents.putParts(name, parts, metadata);
  }

  #get(name: string, request: IncomingMessage): Answer {
    const object = this.#contents.objects.get(name);
    if (object === undefined) return refusal(404, 'BlobNotFound');
    const { sizeBytes } = object;
    const wanted = request.headers['if-match'];
    if (wanted !== undefined && wanted.replaceAll('"', '') !== etagOf(object).replaceAll('"', ''))
      return refusal(412, 'ConditionNotMet');
    if (request.method === 'GET') this.#counter.noteChecksums(request);
    const header = (request.headers['x-ms-range'] as string | undefined) ?? request.headers.range;
    const range = rangeOf(header, sizeBytes);
    if (range.isPart && range.startBytes >= sizeBytes) return refusal(416, 'InvalidRange');
    const headers = { ...rangeHeaders(range, sizeBytes), ...stateOf(object), ...object.metadata };
    return { status: range.isPart ? 206 : 200, headers, body: this.#contents.pieces(object, range) };
  }

  #list(container: string, query: URLSearchParams): Answer {
    const prefix = query.get('prefix') ?? '';
    const marker = query.get('marker') ?? '';
    const from = query.get('startFrom') ?? '';
    const isWanted = (name: string) => name >= from && (marker === '' || name > marker);
    const limit = Math.min(Number(query.get('maxresults') ?? LIST_PAGE_NAMES), LIST_PAGE_NAMES);
    const names = this.#contents.keys(prefix, isWanted, limit + 1);
    const page = names.slice(0, limit);
    const rows = page.map((name) => {
      const object = this.#contents.objects.get(name) as StoredObject;
      const time = object.modified.toUTCString();
      const times = `<Creation-Time>${time}</Creation-Time><Last-Modified>${time}</Last-Modified>`;
      const facts = `<Etag>${etagOf(object).replaceAll('"', '')}</Etag><Content-Length>${object.sizeBytes}</Content-Length>`;
      const type = '<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>';
      return `<Blob><Name>${escaped(name)}</Name><Properties>${times}${facts}${type}</Properties></Blob>`;
    });
    const next = names.length > page.length ? escaped(page.at(-1) ?? '') : '';
    const body = `<Prefix>${escaped(prefix)}</Prefix><Blobs>${rows.join('')}</Blobs><NextMarker>${next}</NextMarker>`;
    return xml(
      `<EnumerationResults ServiceEndpoint="http://server/" ContainerName="${container}">${body}</EnumerationResults>`,
    );
  }
}

const ACCOUNT_HEADERS = {
  'x-ms-sku-name': 'Standard_LRS',
  'x-ms-account-kind': 'StorageV2',
  'x-ms-is-hns-enabled': 'false',
};

function containerAnswer(method: string): Answer {
  const status = method === 'PUT' ? 201 : 200;
  return { status, headers: { etag: '"0x1"', 'last-modified': new Date().toUTCString() } };
}

function refusal(status: number, code: string): Answer {
  const answer = xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`, status);
  return { ...answer, headers: { ...answer.headers, 'x-ms-error-code': code } };
}

function etagOf({ version }: StoredObject): string {
  return `"0x${version.toString(16).toUpperCase().padStart(16, '0')}"`;
}

function stateOf(object: StoredObject): Record<string, string> {
  const time = object.modified.toUTCString();
  return {
    etag: etagOf(object),
    'last-modified': time,
    'x-ms-creation-time': time,
    'x-ms-blob-type': 'BlockBlob',
    'x-ms-request-server-encrypted': 'true',
  };
}

function metadataOf(request: IncomingMessage): Record<string, string> {
  const entries = Object.entries(request.headers).filter(([name]) => name.startsWith('x-ms-meta-'));
  return Object.fromEntries(entries) as Record<string, string>;
}

/** Returns the client's MD5, as the service does after comparing it. */
function md5Of(request: IncomingMessage): Record<string, string> {
  const md5 = request.headers['content-md5'];
  return typeof md5 === 'string' ? { 'content-md5': md5 } : {};
}

function listBlocks(blocks: ReadonlyMap<string, Part> = new Map()): Answer {
  const rows = [...blocks].map(
    ([id, { sizeBytes }]) => `<Block><Name>${escaped(id)}</Name><Size>${sizeBytes}</Size></Block>`,
  );
  const lists = `<CommittedBlocks></CommittedBlocks><UncommittedBlocks>${rows.join('')}</UncommittedBlocks>`;
  return xml(`<BlockList>${lists}</BlockList>`);
}
