/** Reads and writes S3's XML documents. They have a fixed form, and attributes only at the root. */

import {
  brokenAnswer,
  dateMs,
  elementsOf,
  isXmlOf,
  plainEtag,
  type TransportAnswer,
  textOf,
} from '@holdfast/cloud-http';
import { foreignSuccess } from './errors.ts';

const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/';

/**
 * The text of an answer whose root element matches `roots`. An answer of another kind is of another
 * server (`S3Refusal`), so that a web server that sends one page for everything is not taken for an
 * empty bucket. Throws `BAD_BODY` if it is truncated.
 */
export function documentOf({ status, headers, body }: TransportAnswer, roots = /Result$/): string {
  const xml = new TextDecoder().decode(body);
  const isOfStore = headers['x-amz-request-id'] !== undefined;
  if (!isXmlOf(xml, roots, isOfStore)) throw foreignSuccess({ status, headers });
  return xml;
}

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
  readonly etag: string;
  readonly createdAtMs: number;
}

export interface Listing {
  readonly objects: readonly ListedObject[];
  /** Only with a delimiter, which ends each. */
  readonly prefixes: readonly string[];
  readonly isTruncated: boolean;
  readonly nextToken: string | undefined;
}

/** Throws `BAD_BODY` for a page that is not whole: missing objects would count as absent. */
export function parseListing(xml: string): Listing {
  const objects = Array.from(elementsOf(xml, 'Contents'), (item) => ({
    key: textOf(item, 'Key') ?? '',
    sizeBytes: sizeOf(item),
    etag: plainEtag(textOf(item, 'ETag')),
    createdAtMs: timeOf(item, 'LastModified'),
  }));
  const prefixes = Array.from(elementsOf(xml, 'CommonPrefixes'), (item) => textOf(item, 'Prefix') ?? '');
  if ((countOf(xml, 'KeyCount') ?? 0) > objects.length + prefixes.length)
    throw brokenAnswer('it has fewer objects than it claims');
  const isTruncated = flagOf(xml, 'IsTruncated');
  if (isTruncated === undefined) throw brokenAnswer('it does not say whether it is the last page');
  return { objects, prefixes, isTruncated, nextToken: textOf(xml, 'NextContinuationToken') };
}

export interface ListedPart {
  /** From 1. */
  readonly number: number;
  readonly sizeBytes: number;
  readonly etag: string;
  readonly crc32c: string | undefined;
}

export interface PartList {
  readonly parts: readonly ListedPart[];
  readonly isTruncated: boolean;
  readonly nextMarker: string | undefined;
}

export function parsePartList(xml: string): PartList {
  const parts = Array.from(elementsOf(xml, 'Part'), (item) => ({
    number: countOf(item, 'PartNumber') ?? 0,
    sizeBytes: countOf(item, 'Size') ?? 0,
    etag: plainEtag(textOf(item, 'ETag')),
    crc32c: textOf(item, 'ChecksumCRC32C'),
  }));
  const isTruncated = flagOf(xml, 'IsTruncated') ?? false;
  return { parts, isTruncated, nextMarker: textOf(xml, 'NextPartNumberMarker') };
}

export interface UploadList {
  readonly uploads: readonly {
    readonly key: string;
    readonly uploadId: string;
    readonly beganAtMs: number;
  }[];
  readonly isTruncated: boolean;
  readonly nextKeyMarker: string;
  readonly nextUploadIdMarker: string;
}

export function parseUploadList(xml: string): UploadList {
  const uploads = Array.from(elementsOf(xml, 'Upload'), (item) => ({
    key: textOf(item, 'Key') ?? '',
    uploadId: textOf(item, 'UploadId') ?? '',
    beganAtMs: timeOf(item, 'Initiated'),
  }));
  return {
    uploads,
    isTruncated: flagOf(xml, 'IsTruncated') ?? false,
    nextKeyMarker: textOf(xml, 'NextKeyMarker') ?? '',
    nextUploadIdMarker: textOf(xml, 'NextUploadIdMarker') ?? '',
  };
}

/** The refused items of a batch. */
export function parseDeleteErrors(xml: string): { key: string; code: string; message: string }[] {
  return Array.from(elementsOf(xml, 'Error'), (item) => ({
    key: textOf(item, 'Key') ?? '',
    code: textOf(item, 'Code') ?? '',
    message: textOf(item, 'Message') ?? '',
  }));
}

/** A number that is not negative. Throws `BAD_BODY` for anything else that the element holds. */
export function countOf(xml: string, name: string): number | undefined {
  const text = textOf(xml, name);
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw brokenAnswer(`its ${name} is not a number`);
  return Number(text);
}

export function flagOf(xml: string, name: string): boolean | undefined {
  const text = textOf(xml, name);
  if (text === undefined) return undefined;
  if (!/^(true|false)$/i.test(text)) throw brokenAnswer(`its ${name} is neither true nor false`);
  return text.toLowerCase() === 'true';
}

function sizeOf(item: string): number {
  const sizeBytes = countOf(item, 'Size');
  if (sizeBytes === undefined) throw brokenAnswer('an object has no Size');
  return sizeBytes;
}

/**
 * Milliseconds since 1970. Throws `BAD_BODY` if it is absent or no time: what is old may be
 * deleted.
 */
function timeOf(xml: string, name: string): number {
  const text = textOf(xml, name) ?? '';
  if (Number.isNaN(Date.parse(text))) throw brokenAnswer(`its ${name} is not a time`);
  return dateMs(text);
}

export function deleteXml(keys: readonly string[]): Uint8Array {
  const items = keys.map((key) => `<Object><Key>${escaped(key)}</Key></Object>`);
  return document('Delete', `${items.join('')}<Quiet>true</Quiet>`);
}

export interface CompletedPart {
  /** From 1. */
  readonly number: number;
  readonly etag: string;
  readonly crc32c: string | undefined;
}

export function completionXml(parts: readonly CompletedPart[]): Uint8Array {
  const items = parts.map(({ number, etag, crc32c }) => {
    const checksum = crc32c === undefined ? '' : `<ChecksumCRC32C>${crc32c}</ChecksumCRC32C>`;
    return `<Part><ETag>${escaped(etag)}</ETag>${checksum}<PartNumber>${number}</PartNumber></Part>`;
  });
  return document('CompleteMultipartUpload', items.join(''));
}

function document(root: string, content: string): Uint8Array {
  const xml = `<?xml version="1.0" encoding="UTF-8"?><${root} xmlns="${NAMESPACE}">${content}</${root}>`;
  return new TextEncoder().encode(xml);
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Readers of XML change control characters that are not written as entities. */
function escaped(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
    /[&<>"'\u0000-\u001f]/g,
    (sign) => ENTITIES[sign] ?? `&#${sign.charCodeAt(0)};`,
  );
}

/** Checksum of a document, which S3 requires for a batch of deletes. */
export function base64Crc32(bytes: Uint8Array): string {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  const result = Buffer.alloc(4);
  result.writeUInt32BE(~crc >>> 0);
  return result.toString('base64');
}
