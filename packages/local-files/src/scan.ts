import { resolve } from 'node:path';
import { type CallOptions, CheckpointError, type FoundFile, throwIfAborted } from '@holdfast/core/contract';
import type { Check } from './direct-file.ts';
import { fileError } from './errno.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { type TreeEntry, walkTree } from './tree.ts';

const REFUSALS: Readonly<Record<Exclude<TreeEntry['kind'], 'file'>, string>> = {
  link: 'is a symbolic link; links are not followed: put the file itself in its place, or leave it out',
  special: 'is a socket, a named pipe or a device; only regular files can be saved',
  unnameable: 'has a name that is not valid UTF-8; rename it',
};

/** Enough to keep the thread pool busy, few enough to be stopped soon. */
const STATS_AT_A_TIME = 64;

/** See `LocalFiles.scan`. Empty directories below are not recorded. The directory itself may be given by a symbolic link. */
export async function scanDirectory(
  directory: string,
  options: CallOptions = {},
  fileSystem: FileSystem = nodeFileSystem,
): Promise<FoundFile[]> {
  const root = resolve(directory);
  const found: Omit<FoundFile, 'sizeBytes'>[] = [];
  const check = () => throwIfAborted(options.signal);
  try {
    check();
    const stats = await fileSystem.stat(root);
    if (!stats.isDirectory()) throw invalid(root, 'is not a directory');
    for await (const entry of walkTree(fileSystem, root, { missing: 'throw', check })) {
      const path = `${root}/${entry.name}`;
      if (entry.kind !== 'file') throw invalid(path, REFUSALS[entry.kind]);
      found.push({ name: entry.name, path });
    }
    if (found.length === 0) throw invalid(root, 'holds no file');
    return await withSizes(fileSystem, found, check);
  } catch (error) {
    throw fileError(error, `read the directory ${root}`, { path: root });
  }
}

async function withSizes(
  fileSystem: FileSystem,
  found: readonly Omit<FoundFile, 'sizeBytes'>[],
  check: Check,
): Promise<FoundFile[]> {
  const files: FoundFile[] = [];
  for (let start = 0; start < found.length; start += STATS_AT_A_TIME) {
    check();
    const some = found.slice(start, start + STATS_AT_A_TIME);
    const stats = await Promise.all(some.map(({ path }) => fileSystem.lstat(path)));
    files.push(...some.map((file, index) => ({ ...file, sizeBytes: Number(stats[index]?.size) })));
  }
  return files;
}

function invalid(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} ${what}`, { context: { path } });
}
