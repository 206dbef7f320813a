import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointError } from '@holdfast/core/contract';

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;
const SECRET_QUERY_KEY = /([?&][^=&#]*(?:secret|token|passw|signature|sig|key|credential)[^=&#]*=)[^&#]*/gi;

/**
 * The scheme of a store's URI, in lower case. `InvalidConfig` for anything else; a plain path is answered with the `file://` URI of the same place,
 * relative ones taken from the working directory.
 */
export function schemeOf(uri: string): string {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme !== undefined) return scheme.toLowerCase();
  if (uri.trim() === '') {
    throw new CheckpointError(
      'InvalidConfig',
      'the URI of the run is empty; write one such as file:///abs/dir',
    );
  }
  const path = uri.startsWith('file:') ? uri.slice('file:'.length) : uri;
  const suggestion = pathToFileURL(resolve(path)).href;
  throw new CheckpointError(
    'InvalidConfig',
    `"${redactUri(uri)}" is a plain path, not a URI; write ${suggestion}`,
  );
}

/** The URI as it may be shown: user names, passwords and query values that look like secrets are replaced. */
export function redactUri(uri: string): string {
  return uri
    .replace(/([A-Za-z][A-Za-z0-9+.-]*:\/\/)[^/@?#]*@/g, '$1[redacted]@')
    .replace(SECRET_QUERY_KEY, '$1[redacted]');
}
