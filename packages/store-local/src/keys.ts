import { objectError } from './errors.ts';

const SEGMENT_BYTES_MAX = 255; // the longest file name of ext4, XFS, APFS and NTFS
const KEY_BYTES_MAX = 1024; // of the contract; together with the root it stays below PATH_MAX, 4,096 on Linux

/** Files of the store itself start so, at the root; they are no objects. */
const OWN_PREFIX = '.holdfast-';

/** Where files are written before they have a name. */
export const TEMPORARY_DIRECTORY = `${OWN_PREFIX}tmp`;
/** Where objects lie on file systems without hard links; their names are symbolic links. */
export const LINKED_DIRECTORY = `${OWN_PREFIX}data`;

export function isOwnName(name: string): boolean {
  return name.startsWith(OWN_PREFIX);
}

/** `InvalidArgument` if `key` is outside the grammar of `ObjectStore`. What passes names a path below the root. */
export function assertKey(store: string, key: string): void {
  const fault = keyFault(key);
  if (fault !== null) throw objectError('InvalidArgument', { store, key }, `has no valid key: it ${fault}`);
}

function keyFault(key: string): string | null {
  if (!key.isWellFormed()) return 'is not valid Unicode: it holds half of a surrogate pair';
  if (key.includes('\0')) return 'holds a NUL character';
  if (isOwnName(key)) return `starts with "${OWN_PREFIX}", which the store keeps for itself`;
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) return `has more than ${KEY_BYTES_MAX} bytes of UTF-8`;
  for (const segment of key.split('/')) {
    if (segment === '') return "has an empty segment; segments are joined by single '/'";
    if (segment === '.' || segment === '..') return `has the segment "${segment}"`;
    if (Buffer.byteLength(segment) > SEGMENT_BYTES_MAX)
      return `has a segment of more than ${SEGMENT_BYTES_MAX} bytes`;
  }
  return null;
}
