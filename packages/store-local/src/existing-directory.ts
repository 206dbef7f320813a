import { constants } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';
import { closeRead, errnoOf, type FileSystem } from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';

/** Returns the directory itself, or the closest existing one above it. */
export async function existingDirectory(config: LocalConfig, fileSystem: FileSystem): Promise<string> {
  for (let path = resolve(config.directory); ; path = dirname(path)) {
    try {
      const stats = await fileSystem.stat(path);
      if (!stats.isDirectory()) throw refusal('InvalidConfig', config, `${path} is not a directory`);
      // Check permissions by reading: access(2) would check the real user, not the effective one.
      if (path === resolve(config.directory)) {
        const descriptor = await fileSystem.open(path, constants.O_RDONLY | constants.O_DIRECTORY);
        await closeRead(fileSystem, descriptor);
      }
      return path;
    } catch (error) {
      const isMissing = ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      if (!isMissing || path === dirname(path)) throw error;
      if (await isLink(path, fileSystem)) throw refusal('InvalidConfig', config, `${path} ${LEADS_NOWHERE}`);
    }
  }
}

/** What it leads to may be lost or not mounted, so the store is not one that is still empty. */
const LEADS_NOWHERE =
  'is a symbolic link to something that is not there; mount or make what it leads to, or remove the link';

async function isLink(path: string, fileSystem: FileSystem): Promise<boolean> {
  const stats = await fileSystem.lstat(path).catch(() => null);
  return stats?.isSymbolicLink() === true;
}

export function refusal(code: ErrorCode, config: LocalConfig, what: string): CheckpointError {
  return new CheckpointError(code, `${config.uri}: ${what}`, {
    context: { store: config.uri, path: config.directory },
  });
}
