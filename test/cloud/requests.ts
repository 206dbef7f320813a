/** Which of the requests that go to a server is which call of the engine, for proxies that look into them. */

import type { Cloud } from '../servers/clouds.ts';
import type { CloudSuite } from '../servers/config.ts';
import type { Exchange } from '../servers/cutting-proxy.ts';

export type CallKind =
  /** The create of an entry of a catalog. */
  'catalog write' | 'part' | 'completion';

type Fits = (request: Exchange) => boolean;

/** Paths are told apart as they are read, not as they are escaped. */
const FITS: Readonly<Record<CloudSuite, Readonly<Record<CallKind, Fits>>>> = {
  s3: {
    'catalog write': ({ method, path }) => method === 'PUT' && isInCatalog(path),
    part: ({ method, path }) => method === 'PUT' && path.includes('uploadId='),
    completion: ({ method, path }) => method === 'POST' && path.includes('uploadId='),
  },
  // The name of what is created is in the body, with the rest of its metadata.
  gcs: {
    'catalog write': ({ method, bodyStart }) => method === 'POST' && isInCatalog(bodyStart),
    part: ({ method, bodyStart }) => method === 'POST' && /\.holdfast-compose\/[^/]+\/part-/.test(bodyStart),
    completion: ({ method, path }) => method === 'POST' && /\/compose(\?|$)/.test(path),
  },
  azure: {
    'catalog write': ({ method, path }) => method === 'PUT' && isInCatalog(path),
    part: ({ method, path }) => method === 'PUT' && isNumberedBlock(path),
    completion: ({ method, path }) => method === 'PUT' && /[?&]comp=blocklist(&|$)/.test(path),
  },
};

/** For `startCuttingProxy`: how much of a body it takes to tell. */
export const BODY_START_BYTES: Readonly<Record<CloudSuite, number>> = { s3: 0, gcs: 1024, azure: 0 };

export function isCall({ suite }: Cloud, kind: CallKind, request: Exchange): boolean {
  return FITS[suite][kind](request);
}

function isInCatalog(text: string): boolean {
  return /(\/|%2F)catalog(\/|%2F)/.test(text);
}

/** There are blocks that only say what became of an upload. */
function isNumberedBlock(path: string): boolean {
  const query = new URLSearchParams(path.slice(path.indexOf('?')));
  const name = Buffer.from(query.get('blockid') ?? '', 'base64').toString();
  return query.get('comp') === 'block' && /^[0-9a-f]{32}\d+[0-9a-f]{8}$/.test(name);
}
