import { resolve, sep } from 'node:path';
import { anyText, CheckpointError } from '@holdfast/core/contract';

/**
 * Also with one slash: joining paths turns `s3://bucket` into `s3:/bucket`. A single letter may be
 * a drive.
 */
const URI_LIKE = /^[a-z][a-z0-9+.-]+:\//i;

/**
 * The absolute path of a file or directory of this machine that a caller has named. Throws
 * `InvalidArgument` if it is empty, only spaces, or looks like a URI, which would otherwise become
 * a directory below the working directory. The message does not repeat the text, which may hold a
 * secret.
 */
export function localPath(path: string): string {
  anyText('the path', path);
  if (path.trim() === '')
    throw invalid('the path is empty; write "." for the working directory, and "./ " for a name of spaces');
  if (path.includes('\0')) throw invalid('the path contains a NUL character');
  if (URI_LIKE.test(path)) {
    throw invalid(
      'this takes a path on this machine, and was given a URI; write the path without file://, and a name that begins like a URI as ./NAME',
    );
  }
  return resolve(path);
}

/**
 * Tells whether an absolute path is the directory or lies below it. Every path lies below the root.
 */
export function isAtOrBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith(sep) ? directory : `${directory}${sep}`);
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
