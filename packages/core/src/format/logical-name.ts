/**
 * Logical names: the paths of files inside a checkpoint. They become parts of keys, and of paths on
 * the machine that restores.
 */

import { anyText, CheckpointError } from '../contract/index.ts';
import { VERSION_MAX } from './version.ts';

/**
 * 128 bits of randomness are sufficient. The limit keeps payload keys within their length limit.
 */
export const NONCE_HEX_DIGITS_MAX = 32;

/** Limits of the store contract. */
const KEY_BYTES_MAX = 1024;
const SEGMENT_BYTES_MAX = 255;

const LONGEST_PREFIX = `version_${VERSION_MAX}/4294967295.4294967295/4294967295.4294967295-${'f'.repeat(NONCE_HEX_DIGITS_MAX)}/`;
/** Even with the longest possible prefix, a payload key fits into 1,024 bytes. */
export const LOGICAL_NAME_BYTES_MAX = KEY_BYTES_MAX - LONGEST_PREFIX.length;

/** Matches most names: a fast path, and short enough for every limit. */
const PLAIN_NAME = /^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

/** Why `name` is not a logical name, in words; `null` if it is one. */
export function logicalNameProblem(name: string): string | null {
  if (name.length <= SEGMENT_BYTES_MAX && PLAIN_NAME.test(name)) return null;
  if (name === '') return 'it is empty';
  if (name.startsWith('/')) return 'it is absolute; names are relative to the checkpoint';
  if (!name.isWellFormed()) return 'it holds half of a surrogate pair, which UTF-8 cannot express';
  if (name.includes('\0')) return 'it holds NUL';
  if (/\p{Cc}/u.test(name)) return 'it holds a control character';
  if (/[\ufffe\uffff]/.test(name)) return 'it holds U+FFFE or U+FFFF, which listings in XML cannot express';
  if (name.includes('\\')) return "it holds a backslash; segments are joined by '/'";
  const sizeBytes = Buffer.byteLength(name);
  if (sizeBytes > LOGICAL_NAME_BYTES_MAX)
    return `it has ${sizeBytes} bytes of UTF-8; the most is ${LOGICAL_NAME_BYTES_MAX}`;
  for (const segment of name.split('/')) {
    if (segment === '') return "it has an empty segment (a '/' at the end, or two in a row)";
    if (segment === '.' || segment === '..') return `it has a segment "${segment}"`;
    if (Buffer.byteLength(segment) > SEGMENT_BYTES_MAX)
      return `it has a segment of more than ${SEGMENT_BYTES_MAX} bytes of UTF-8`;
  }
  return null;
}

/**
 * `InvalidArgument` with the reason: a name is relative, without '.', '..', empty segments, control
 * characters, U+FFFE, U+FFFF or backslashes.
 */
export function checkLogicalName(name: string): void {
  anyText('a file name', name);
  const problem = logicalNameProblem(name);
  if (problem === null) return;
  throw refusal(name, `file name ${quoted(name)} cannot be used: ${problem}`);
}

/**
 * Checks each name, and all together: no duplicates, and no file name that another name needs as a
 * directory ("a" and "a/b"). `directories`: names of empty directories, which may contain
 * duplicates.
 */
export function checkLogicalNames(names: readonly string[], directories: readonly string[] = []): void {
  const seen = new Set<string>();
  for (const name of names) {
    checkLogicalName(name);
    if (seen.has(name)) throw refusal(name, `two files have the name ${quoted(name)}`);
    seen.add(name);
  }
  for (const name of names) assertDirectories(name, seen, 'file');
  for (const name of directories) {
    checkLogicalName(name);
    if (seen.has(name)) throw refusal(name, `${quoted(name)} is both a file and an empty directory`);
    assertDirectories(name, seen, 'directory');
  }
}

/** Throws if a directory above `name` has the name of a file. */
function assertDirectories(name: string, files: ReadonlySet<string>, what: 'file' | 'directory'): void {
  for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1)) {
    const directory = name.slice(0, at);
    if (!files.has(directory)) continue;
    throw refusal(
      name,
      `${what} name ${quoted(name)} needs ${quoted(directory)} as a directory, but that is a file too`,
    );
  }
}

/** Escapes control characters and cuts long names, so that a message stays one readable line. */
function quoted(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}

function refusal(name: string, message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message, { context: { name } });
}
