/** The bytes that writers save. They name their author, so that a mixture is detected. */

import { filesOf as largeFilesOf } from '../crash/invariants.ts';
import { violated } from './invariant-error.ts';

/**
 * The author of the bytes: attempt, version, writer and, if lives write different bytes, the life.
 */
export interface Authorship {
  readonly attempt: string;
  readonly version: number;
  readonly writer: number;
  /** Absent: every life of the writer writes the same bytes. */
  readonly life?: number | undefined;
}

export type Files = Readonly<Record<string, Uint8Array>>;

/**
 * Two small files. `isLarge`: the files of the crash stories, one of them in two parts and the same
 * in every life.
 */
export function filesOf(author: Authorship, isLarge: boolean): Files {
  const { attempt, version, writer } = author;
  if (isLarge) return largeFilesOf(attempt, BigInt(version), writer);
  const mark = markOf(author, false);
  return { [`w${writer}/data`]: encode(`data of ${mark}`), [`w${writer}/tag`]: encode(mark) };
}

/** A mark that identifies the author of the files. */
export function markOf({ attempt, version, writer, life }: Authorship, isLarge: boolean): string {
  return isLarge ? attempt : `${attempt}/${version}/${writer}/${life ?? 'any'}`;
}

export function attemptOfMark(mark: string): string {
  return mark.split('/')[0] ?? '';
}

/**
 * The mark of the author of these files. Throws if the author is unknown, is another one, or if
 * there are several.
 */
export function markIn(files: Files, version: number, writer: number): string {
  const mark = decode(files[`w${writer}/tag`]);
  const [attempt = '', ofVersion, ofWriter, life] = mark.split('/');
  const isLarge = life === undefined;
  if (!isLarge && (Number(ofVersion) !== version || Number(ofWriter) !== writer))
    violated('I6', `version ${version} has files "${mark}" as writer ${writer}'s`);
  const expected = isLarge
    ? largeFilesOf(attempt, BigInt(version), writer)
    : { [`w${writer}/data`]: encode(`data of ${mark}`), [`w${writer}/tag`]: encode(mark) };
  const names = new Set([...Object.keys(expected), ...Object.keys(files)]);
  for (const name of names) {
    const bytes = files[name];
    const wanted = expected[name];
    if (!bytes || !wanted || Buffer.compare(bytes, wanted) !== 0)
      violated('I9', `${name} of version ${version} is not what "${mark}" wrote`);
  }
  return mark;
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function decode(bytes: Uint8Array | undefined): string {
  return new TextDecoder().decode(bytes ?? new Uint8Array());
}
