import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;
/** What can be nothing but a path. Any other text without a scheme may be a secret in a wrong place. */
const PATH = /^\.{0,2}\//;

/**
 * The scheme of a store's URI, in lower case. `InvalidConfig` for anything else; a path that begins with `/`, `./` or `../` is answered with
 * the `file://` URI of the same place, and any other text is not repeated.
 */
export function schemeOf(uri: string): string {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme !== undefined) return scheme.toLowerCase();
  if (uri.trim() === '') throw noUri('the URI of the run is empty; write one such as file:///abs/dir');
  const path = uri.replace(/^file:/i, '');
  if (PATH.test(path)) throw noUri(`a path is given where a URI is due; write ${urlOf(path)}`);
  const here = urlOf('.');
  throw noUri(
    `the URI has no scheme; a directory here is ${here}/NAME, another place such as s3://bucket/prefix`,
  );
}

function urlOf(path: string): string {
  return pathToFileURL(resolve(path)).href;
}

function noUri(message: string): CheckpointError {
  return new CheckpointError('InvalidConfig', message);
}
