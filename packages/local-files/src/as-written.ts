/** Checks whether the file under a path is still the one that was written there. */

import type { BigIntStats } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';

/** Identity of a complete file, to recognise it later. */
export interface WrittenFile {
  /** Device and inode. */
  readonly identity: string;
  readonly size: bigint;
  readonly mtimeNs: bigint;
}

export function writtenFile(stats: BigIntStats): WrittenFile {
  return { identity: identityOf(stats), size: stats.size, mtimeNs: stats.mtimeNs };
}

/**
 * `stats`: of the path itself, links not followed. The size must match, and either the inode or the
 * modification time. Some network file systems renumber a file, and some set its time on close.
 */
export function isAsWritten(stats: BigIntStats, file: WrittenFile): boolean {
  const isSame = identityOf(stats) === file.identity || stats.mtimeNs === file.mtimeNs;
  return isSame && stats.isFile() && stats.size === file.size;
}

function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}-${ino}`;
}

/** Describes what a path holds in place of the written file; `null`: nothing. */
export function whatIs(stats: BigIntStats | null): string {
  if (stats === null) return 'is gone';
  if (stats.isSymbolicLink()) return 'is a symbolic link';
  if (stats.isDirectory()) return 'is a directory';
  return stats.isFile() ? 'is another file' : 'is a special file';
}

/**
 * `path`: the path that has changed. `target`: what a restore, or another writer, was about to put
 * in place.
 */
export function changedMeanwhile(
  target: string,
  path: string,
  what: string,
  cause?: unknown,
): CheckpointError {
  const message = `another program changed a file that is being written for ${target}: ${path} ${what}`;
  return new CheckpointError('Conflict', message, {
    context: { path, advice: ['find the program that changes files there, stop it, and try again'] },
    cause,
  });
}
