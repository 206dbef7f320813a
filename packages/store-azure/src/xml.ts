/** The documents of Azure that are read and written here. Each has elements without attributes but for `Encoded`, in a fixed form. */

import { unescapedXml } from '@holdfast/cloud-http';

export interface ListedBlob {
  readonly name: string;
  readonly sizeBytes: number;
  readonly etag: string;
  /** As an HTTP date. */
  readonly lastModified: string;
  /** Of an account with a hierarchical namespace: no blob at all. */
  readonly isDirectory: boolean;
}

export interface Listing {
  readonly blobs: readonly ListedBlob[];
  /** Where the next page begins; nothing on the last one. */
  readonly nextMarker: string | undefined;
}

export interface ListedBlock {
  /** Decoded from base64. */
  readonly name: string;
  readonly sizeBytes: number;
}

/** Null for what is no listing. */
export function parseListing(xml: string): Listing | null {
  if (!/<EnumerationResults[\s>]/.test(xml.slice(0, 1024))) return null;
  const blobs = [...xml.matchAll(/<Blob>(.*?)<\/Blob>/gs)].map(([, blob = '']) => parseBlob(blob));
  return { blobs, nextMarker: textOf(xml.slice(xml.lastIndexOf('</Blobs>') + 1), 'NextMarker') || undefined };
}

function parseBlob(xml: string): ListedBlob {
  const [, encoded, escapedName = ''] = /<Name( Encoded="true")?>([^<]*)<\/Name>/.exec(xml) ?? [];
  const name = unescapedXml(escapedName);
  return {
    name: encoded === undefined ? name : decodeURIComponent(name),
    sizeBytes: Number(textOf(xml, 'Content-Length') ?? 0),
    etag: textOf(xml, 'Etag') ?? '',
    lastModified: textOf(xml, 'Last-Modified') ?? '',
    isDirectory: textOf(xml, 'ResourceType') === 'directory' || textOf(xml, 'hdi_isfolder') === 'true',
  };
}

/** The uncommitted blocks of a blob. Null for what is no list of blocks. */
export function parseBlockList(xml: string): ListedBlock[] | null {
  if (!/<BlockList[\s/>]/.test(xml.slice(0, 1024))) return null;
  const [, section = ''] = /<UncommittedBlocks>(.*?)<\/UncommittedBlocks>/s.exec(xml) ?? [];
  return [...section.matchAll(/<Block>(.*?)<\/Block>/gs)].map(([, block = '']) => ({
    name: Buffer.from(textOf(block, 'Name') ?? '', 'base64').toString(),
    sizeBytes: Number(textOf(block, 'Size') ?? 0),
  }));
}

/** `ids`: in base64, which needs no escapes. */
export function blockListXml(ids: readonly string[]): Uint8Array {
  const blocks = ids.map((id) => `<Uncommitted>${id}</Uncommitted>`).join('');
  const xml = `<?xml version="1.0" encoding="utf-8"?><BlockList>${blocks}</BlockList>`;
  return new TextEncoder().encode(xml);
}

/** Of the first such element. */
export function textOf(xml: string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  return text === undefined ? undefined : unescapedXml(text);
}
