/**
 * Reads and writes Azure's XML documents. They have a fixed form, and no attributes but `Encoded`.
 */

import { brokenAnswer, elementsOf, isXmlOf, textOf, unescapedXml } from '@holdfast/cloud-http';

export interface ListedBlob {
  readonly name: string;
  readonly sizeBytes: number;
  readonly etag: string;
  /** As an HTTP date. */
  readonly lastModified: string;
  /** A directory of an account with a hierarchical namespace, not a blob. */
  readonly isDirectory: boolean;
}

export interface Listing {
  readonly blobs: readonly ListedBlob[];
  /** Only with a delimiter, which ends each. */
  readonly prefixes: readonly string[];
  /** Start of the next page; undefined on the last one. */
  readonly nextMarker: string | undefined;
}

export interface ListedBlock {
  /** Decoded from base64. */
  readonly name: string;
  readonly sizeBytes: number;
}

/**
 * Null if it is not a listing. Throws `BAD_BODY` if it is truncated: missing blobs would count as
 * absent.
 */
export function parseListing(xml: string, isOfStore = false): Listing | null {
  if (!isXmlOf(xml, /^EnumerationResults$/, isOfStore)) return null;
  if (!/<\/Blobs>|<Blobs\s*\/>/.test(xml)) throw brokenAnswer('it has no </Blobs>');
  const blobs: ListedBlob[] = [];
  for (const element of elementsOf(xml, 'Blob')) {
    const blob = parseBlob(element);
    if (blob === null) throw brokenAnswer('it has a name that no store writes');
    if (blobs.length === PAGE_BLOBS_MAX) return null;
    blobs.push(blob);
  }
  const prefixes = Array.from(elementsOf(xml, 'BlobPrefix'), (element) => {
    const name = nameOf(element);
    if (name === null) throw brokenAnswer('it has a name that no store writes');
    return name;
  });
  const rest = xml.slice(xml.lastIndexOf('</Blobs>') + 1);
  if (!/<NextMarker\s*\/?>/.test(rest)) throw brokenAnswer('it does not say whether it is the last page');
  return { blobs, prefixes, nextMarker: textOf(rest, 'NextMarker') || undefined };
}

/** Azure's maximum per page. */
const PAGE_BLOBS_MAX = 5000;

/** Null: it has no name, or one that no store writes. */
function parseBlob(xml: string): ListedBlob | null {
  const name = nameOf(xml);
  if (name === null) return null;
  return {
    name,
    sizeBytes: Number(textOf(xml, 'Content-Length') ?? 0),
    etag: textOf(xml, 'Etag') ?? '',
    lastModified: textOf(xml, 'Last-Modified') ?? '',
    isDirectory: textOf(xml, 'ResourceType') === 'directory' || textOf(xml, 'hdi_isfolder') === 'true',
  };
}

function nameOf(xml: string): string | null {
  const [, encoded, escapedName = ''] = /<Name( Encoded="true")?>([^<]+)<\/Name>/.exec(xml) ?? [];
  if (escapedName === '') return null;
  const plainName = unescapedXml(escapedName);
  return encoded === undefined ? plainName : percentDecoded(plainName);
}

function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/**
 * Parses the uncommitted blocks of a blob. Null if it is not a list of blocks. Throws `BAD_BODY` if
 * it is truncated.
 */
export function parseBlockList(xml: string, isOfStore = false): ListedBlock[] | null {
  if (!isXmlOf(xml, /^BlockList$/, isOfStore)) return null;
  const [section = ''] = elementsOf(xml, 'UncommittedBlocks');
  return Array.from(elementsOf(section, 'Block'), (block) => ({
    name: Buffer.from(textOf(block, 'Name') ?? '', 'base64').toString(),
    sizeBytes: Number(textOf(block, 'Size') ?? 0),
  }));
}

/** `ids`: in base64, which needs no escaping. */
export function blockListXml(ids: readonly string[]): Uint8Array {
  const blocks = ids.map((id) => `<Uncommitted>${id}</Uncommitted>`).join('');
  const xml = `<?xml version="1.0" encoding="utf-8"?><BlockList>${blocks}</BlockList>`;
  return new TextEncoder().encode(xml);
}
