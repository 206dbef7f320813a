/**
 * Maps keys to blob names. Azure turns every '\' into '/', and servers remove a '.' at the end of a
 * path segment. Such a key would address another blob. These characters are therefore encoded, in a
 * way that keeps names in the order of their keys.
 */

import { objectError, pathInBucket } from '@holdfast/cloud-http';

/** The last code point of Unicode. It has no assigned meaning. */
const MARK = '\u{10fffd}';
/** Sorts after '[' followed by anything else, and before ']', as '\' does. */
const BACKSLASH = `[${MARK}`;
/** Sorts after "." followed by anything below '/', and before "0", as './' does. */
const DOT_BEFORE_SLASH = `..${MARK}`;
/** Sorts after '.', and before "." followed by anything but a space. */
const LAST_DOT = `. ${MARK}`;

/** Prefix of the blob names of all keys that begin with `text`. */
export function namePrefix(text: string): string {
  return text.replaceAll('\\', BACKSLASH).replace(/\.(?=\/)/g, DOT_BEFORE_SLASH);
}

/**
 * `root`: empty, or ends in '/'; a prefix of names. Throws `InvalidArgument` if root and key are
 * too long together, or if the key contains the mark.
 */
export function blobName(
  { store, root }: { readonly store: string; readonly root: string },
  key: string,
): string {
  pathInBucket({ store, root, provider: 'Azure' }, key);
  if (key.includes(MARK))
    throw objectError(
      'InvalidArgument',
      { store, key },
      'contains U+10FFFD, which is reserved as an escape character',
    );
  return root + namePrefix(key).replace(/\.$/, LAST_DOT);
}

/** Key of a blob name without the root; null if it is the name of no key. */
export function keyOf(name: string): string | null {
  if (!name.includes(MARK)) return name;
  const key = name
    .replaceAll(BACKSLASH, '\\')
    .replaceAll(`${DOT_BEFORE_SLASH}/`, './')
    .replace(new RegExp(`${LAST_DOT.replace('.', '\\.')}$`, 'u'), '.');
  return key.includes(MARK) ? null : key;
}
