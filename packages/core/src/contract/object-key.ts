/** The grammar and the order of keys, for engine and adapters alike. */

import { anyText } from './checks.ts';
import { CheckpointError } from './errors.ts';

const SEGMENT_BYTES_MAX = 255; // the longest file name of ext4, XFS, APFS and NTFS
const KEY_BYTES_MAX = 1024; // S3, GCS and Azure limit object names so

const encoder = new TextEncoder();

/** Files of a store itself start so, at its root; they are no objects. */
export const STORE_OWN_PREFIX = '.holdfast-';

const RUN_FILE =
  /(?:^|\/)(?:catalog\/[0-9]{20}|version_[0-9]{1,19}\/[0-9]{1,10}\.[0-9]{1,10}\/manifest-[0-9a-f]{16})\.json$/;

/** Does a path end in a name that only a run gives: that of a catalog entry, or of a manifest? A directory with such a file is of a run. */
export function isRunFile(path: string): boolean {
  return RUN_FILE.test(path);
}

/** `InvalidArgument` if `key` is outside the grammar of `ObjectStore`; the message says what is wrong with it. */
export function assertObjectKey(key: string, store?: string): void {
  anyText('key', key);
  const fault = keyFault(key);
  if (fault !== null)
    throw new CheckpointError('InvalidArgument', `key ${JSON.stringify(key)} ${fault}`, {
      context: { key, ...(store !== undefined && { store }) },
    });
}

/** For names found in a store, where others may have put theirs. */
export function isObjectKey(key: string): boolean {
  return keyFault(key) === null;
}

function keyFault(key: string): string | null {
  if (typeof key !== 'string') return 'is no text';
  if (!key.isWellFormed()) return 'is not valid Unicode: it holds half of a surrogate pair';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(key)) return 'holds a control character';
  if (key.startsWith(STORE_OWN_PREFIX))
    return `starts with "${STORE_OWN_PREFIX}", which stores keep for themselves`;
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

/** Negative, zero or positive as `a` comes before, is or comes after `b` in the order of their UTF-8 bytes. */
export function compareUtf8(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return utf8Rank(x) - utf8Rank(y);
  }
  return a.length - b.length;
}

/** UTF-16 puts surrogates (characters above U+FFFF) before U+E000 to U+FFFF, UTF-8 puts them after. */
function utf8Rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
