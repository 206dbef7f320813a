/** Maps requests to a server to calls of the engine, for proxies that inspect them. */

import type { Cloud } from '../servers/clouds.ts';
import type { CloudSuite } from '../servers/config.ts';
import type { Exchange } from '../servers/cutting-proxy.ts';

export type CallKind =
  /** Creates an entry of a catalog. */
  'catalog write' | 'part' | 'completion';

type Fits = (request: Exchange) => boolean;

/** Compares unescaped paths. */
const FITS: Readonly<Record<CloudSuite, Readonly<Record<CallKind, Fits>>>> = {
  s3: {
    'catalog write': ({ method, path }) => method === 'PUT' && isInCatalog(path),
    part: ({ method, path }) => method === 'PUT' && path.includes('uploadId='),
    completion: ({ method, path }) => method === 'POST' && path.includes('uploadId='),
  },
  // The name of a new object is in the body, with its other metadata.
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

/** For `startCuttingProxy`: how many bytes of a body are needed to identify a request. */
export const BODY_START_BYTES: Readonly<Record<CloudSuite, number>> = { s3: 0, gcs: 1024, azure: 0 };

export function isCall({ suite }: Cloud, kind: CallKind, request: Exchange): boolean {
  return FITS[suite][kind](request);
}

function isInCatalog(text: string): boolean {
  return /(\/|%2F)catalog(\/|%2F)/.test(text);
}

/** Some blocks only record the outcome of an upload. */
function isNumberedBlock(path: string): boolean {
  const query = new URLSearchParams(path.slice(path.indexOf('?')));
  const name = Buffer.from(query.get('blockid') ?? '', 'base64').toString();
  return query.get('comp') === 'block' && /^[0-9a-f]{32}\d+[0-9a-f]{8}$/.test(name);
}
