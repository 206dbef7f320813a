/** The grammar and the order of keys, for engine and adapters alike. */

import { anyText } from './checks.ts';
import { CheckpointError } from './errors.ts';

const SEGMENT_BYTES_MAX = 255; // the longest file name of ext4, XFS, APFS and NTFS
const KEY_BYTES_MAX = 1024; // S3, GCS and Azure have this limit for object names

const encoder = new TextEncoder();

/** Keys of a store's own files start with this prefix, at its root; these files are not objects. */
export const STORE_OWN_PREFIX = '.holdfast-';

const RUN_FILE =
  /(?:^|\/)(?:catalog\/[0-9]{20}|version_[0-9]{1,19}\/[0-9]{1,10}\.[0-9]{1,10}\/manifest-[0-9a-f]{16})\.json$/;

/**
 * True if a path ends in the name of a catalog entry or a manifest, which only a run uses. A
 * directory with such a file belongs to a run.
 */
export function isRunFile(path: string): boolean {
  return RUN_FILE.test(path);
}

/**
 * `InvalidArgument` if `key` is outside the grammar of `ObjectStore`; the message says what is
 * wrong with it.
 */
export function assertObjectKey(key: string, store?: string): void {
  anyText('key', key);
  const fault = keyFault(key);
  if (fault !== null)
    throw new CheckpointError('InvalidArgument', `key ${JSON.stringify(key)} ${fault}`, {
      context: { key, ...(store !== undefined && { store }) },
    });
}

/** For names found in a store, which may hold keys of other programs. */
export function isObjectKey(key: string): boolean {
  return keyFault(key) === null;
}

function keyFault(key: string): string | null {
  if (typeof key !== 'string') return 'is not a string';
  if (!key.isWellFormed()) return 'is not valid Unicode: it holds half of a surrogate pair';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(key)) return 'holds a control character';
  if (key.startsWith(STORE_OWN_PREFIX))
    return `starts with "${STORE_OWN_PREFIX}", which is reserved for stores`;
  const bytes = encoder.encode(key).byteLength;
  if (bytes > KEY_BYTES_MAX) return `has ${bytes} bytes of UTF-8; at most ${KEY_BYTES_MAX} are accepted`;
  for (const segment of key.split('/')) {
    if (segment === '') return "has an empty segment; segments are joined by single '/'";
    if (segment === '.' || segment === '..') return `has the segment '${segment}'`;
    const segmentBytes = encoder.encode(segment).byteLength;
    if (segmentBytes > SEGMENT_BYTES_MAX)
      return `has a segment of ${segmentBytes} bytes; at most ${SEGMENT_BYTES_MAX} are accepted`;
  }
  return null;
}

/**
 * Compares by UTF-8 bytes: negative, zero or positive as `a` comes before, equals or comes after
 * `b`.
 */
export function compareUtf8(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return utf8Rank(x) - utf8Rank(y);
  }
  return a.length - b.length;
}

/**
 * UTF-16 puts surrogates (characters above U+FFFF) before U+E000 to U+FFFF, UTF-8 puts them after.
 */
function utf8Rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
