/** Whether a directory belongs to this user alone. */

import type { Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import process from 'node:process';
import { CheckpointError } from '@holdfast/core/contract';
import { fileError } from '@holdfast/local-files';

/**
 * `Denied`: the path is a link or no directory, belongs to another user, or others may enter it.
 */
export async function assertPrivateDirectory(path: string): Promise<void> {
  const stats = await lstat(path).catch((error: unknown) => {
    throw fileError(error, `look at ${path}`, { path });
  });
  assertPrivate(path, stats);
}

/** As `assertPrivateDirectory`, of what was found at `path`. */
export function assertPrivate(path: string, stats: Stats): void {
  if (!stats.isDirectory())
    throw denied(path, stats.isSymbolicLink() ? 'is a symbolic link' : 'is no directory');
  if (stats.uid !== process.getuid?.()) throw denied(path, `belongs to user ${stats.uid}`);
  if ((stats.mode & 0o077) !== 0) {
    const mode = (stats.mode & 0o777).toString(8).padStart(4, '0');
    throw denied(path, `has mode ${mode}, so that other users may enter it; make it 0700`);
  }
}

function denied(path: string, what: string): CheckpointError {
  return new CheckpointError('Denied', `${path} ${what}`, { context: { path } });
}
