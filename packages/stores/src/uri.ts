import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;

/**
 * The scheme of a store's URI, in lower case. Throws `InvalidConfig` for anything else. For a path
 * that begins with `/`, `./` or `../`, the message gives the matching `file://` URI. It repeats no
 * other text, and no path that may hold a password.
 */
export function schemeOf(uri: string): string {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme !== undefined) return scheme.toLowerCase();
  if (uri.trim() === '') throw noUri('the URI of the run is empty; write one such as file:///abs/dir');
  if (/^file:/i.test(uri))
    throw noUri('file: is not followed by "//" and an absolute path; write file:///abs/dir');
  if (/^[A-Za-z][A-Za-z0-9+.-]+:\/(?!\/)/.test(uri))
    throw noUri('the scheme is followed by one slash instead of two; write s3://bucket/prefix');
  if (isPath(uri)) throw noUri(`this takes a URI, and was given a path; write ${urlOf(uri)}`);
  const here = urlOf('.');
  throw noUri(
    `the URI has no scheme; a directory here is ${here}/NAME, another place such as s3://bucket/prefix`,
  );
}

/**
 * True if the text can only be a path. Any other text may hold a secret in a wrong place. A text
 * that begins with two slashes is a URI without its scheme, and may hold one too. So may a text
 * with a name and a password before an `@`.
 */
export function isPath(text: string): boolean {
  return /^\.{0,2}\/(?!\/)/.test(text) && !/:.*@/s.test(text);
}

/**
 * Directory of a store on this machine; `null` if it is elsewhere. `uri`: as reported by an open
 * store.
 */
export function pathOfFileUri(uri: string): string | null {
  return uri.startsWith('file:') ? fileURLToPath(uri) : null;
}

function urlOf(path: string): string {
  return pathToFileURL(resolve(path)).href;
}

function noUri(message: string): CheckpointError {
  return new CheckpointError('InvalidConfig', message);
}
