import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;

/**
 * The scheme of a store's URI, in lower case. `InvalidConfig` for anything else; a path that begins with `/`, `./` or `../` is answered with
 * the `file://` URI of the same place, and any other text is not repeated.
 */
export function schemeOf(uri: string): string {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme !== undefined) return scheme.toLowerCase();
  if (uri.trim() === '') throw noUri('the URI of the run is empty; write one such as file:///abs/dir');
  if (/^file:/i.test(uri))
    throw noUri('file: is not followed by "//" and an absolute path; write file:///abs/dir');
  if (isPath(uri)) throw noUri(`a path is given where a URI is due; write ${urlOf(uri)}`);
  const here = urlOf('.');
  throw noUri(
    `the URI has no scheme; a directory here is ${here}/NAME, another place such as s3://bucket/prefix`,
  );
}

/** It can be nothing but a path. Any other text without a scheme may be a secret in a wrong place. */
export function isPath(text: string): boolean {
  return /^\.{0,2}\//.test(text);
}

function urlOf(path: string): string {
  return pathToFileURL(resolve(path)).href;
}

function noUri(message: string): CheckpointError {
  return new CheckpointError('InvalidConfig', message);
}
