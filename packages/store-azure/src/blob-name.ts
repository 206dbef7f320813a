/**
 * Names of blobs for keys. Azure makes a '/' of every '\', and servers take the '.' at the end of a
 * segment out of a path: another blob would be meant. So these are written in another way, which
 * keeps names in the order of their keys.
 */

import { objectError, pathInBucket } from '@holdfast/cloud-http';

/** A letter that nobody has given a meaning, and the last of all. */
const MARK = '\u{10fffd}';
/** Comes after '[' with anything else behind it, and before ']', as '\' does. */
const BACKSLASH = `[${MARK}`;
/** Comes after "." with anything below '/' behind it, and before "0", as './' does. */
const DOT_BEFORE_SLASH = `..${MARK}`;
/** Comes after '.', and before "." with anything behind it but a blank. */
const LAST_DOT = `. ${MARK}`;

/** What the name of a blob begins with, if its key begins with `text`. */
export function namePrefix(text: string): string {
  return text.replaceAll('\\', BACKSLASH).replace(/\.(?=\/)/g, DOT_BEFORE_SLASH);
}

/**
 * `root`: empty, or ends in '/'; a prefix of names. `InvalidArgument`: together they are too long,
 * or the key has the mark in it.
 */
export function blobName(
  { store, root }: { readonly store: string; readonly root: string },
  key: string,
): string {
  pathInBucket({ store, root, provider: 'Azure' }, key);
  if (key.includes(MARK))
    throw objectError('InvalidArgument', { store, key }, 'has a U+10FFFD, which stands for other signs here');
  return root + namePrefix(key).replace(/\.$/, LAST_DOT);
}

/** Of the name of a blob, without the root; null for a name that is of no key. */
export function keyOf(name: string): string | null {
  if (!name.includes(MARK)) return name;
  const key = name
    .replaceAll(BACKSLASH, '\\')
    .replaceAll(`${DOT_BEFORE_SLASH}/`, './')
    .replace(new RegExp(`${LAST_DOT.replace('.', '\\.')}$`, 'u'), '.');
  return key.includes(MARK) ? null : key;
}
