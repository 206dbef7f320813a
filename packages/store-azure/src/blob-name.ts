/** Names of blobs for keys. Azure makes a '/' of every '\', so that one is written in another way, which keeps the order of names. */

import { objectError, pathInBucket } from '@holdfast/cloud-http';

/** Comes after '[' with anything else behind it, and before ']', as '\' does. The letter is one that nobody has given a meaning. */
const BACKSLASH = '[\u{10fffd}';

/** Servers take the '.' at the end of a segment out of a path, and '.' and '..' altogether: another blob would be meant. */
export function hasUnsafeSegment(path: string): boolean {
  return path.split('/').some((segment) => segment.endsWith('.'));
}

export function escapedBackslashes(text: string): string {
  return text.replaceAll('\\', BACKSLASH);
}

/**
 * The name in the container. `root`: empty, or ends in '/'; escaped. `InvalidArgument`: together they are too long, or Azure would not
 * keep the name as it is.
 */
export function blobName(
  { store, root }: { readonly store: string; readonly root: string },
  key: string,
): string {
  const name = pathInBucket({ store, root, provider: 'Azure' }, key);
  const refuse = (what: string) => objectError('InvalidArgument', { store, key }, what);
  if (hasUnsafeSegment(key)) throw refuse('has a segment that ends in ".", which Azure does not keep');
  if (key.includes(BACKSLASH)) throw refuse('has a "[" before U+10FFFD, which stands for a backslash here');
  return escapedBackslashes(name);
}

/** Of the name of a blob below the root, without that. */
export function keyOf(name: string): string {
  return name.replaceAll(BACKSLASH, '\\');
}
