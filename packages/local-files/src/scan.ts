import { type CallOptions, CheckpointError, type FoundFile, throwIfAborted } from '@holdfast/core/contract';
import type { Check } from './direct-file.ts';
import { fileError } from './errno.ts';
import { diskFileSystem, type FileSystem, nodeFileSystem, scannedFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import { fileSystemAt } from './mounts.ts';
import { FileSource } from './source.ts';
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
  const root = localPath(directory);
  const names: string[] = [];
  const check = () => throwIfAborted(options.signal);
  try {
    check();
    const stats = await fileSystem.stat(root);
    if (!stats.isDirectory()) throw invalid(root, 'is not a directory');
    const realRoot = await fileSystem.realpath(root);
    for await (const entry of walkTree(fileSystem, root, { missing: 'throw', check })) {
      if (entry.kind !== 'file') throw invalid(`${root}/${entry.name}`, REFUSALS[entry.kind]);
      names.push(entry.name);
    }
    if (names.length === 0) throw invalid(root, 'holds no file');
    const isOnDisk = fileSystem === nodeFileSystem && (await fileSystemAt(root)) === diskFileSystem;
    const disk = isOnDisk ? stats.dev : undefined;
    return await lookAt(fileSystem, root, names, { disk, realRoot, check });
  } catch (error) {
    throw fileError(error, `read the directory ${root}`, { path: root });
  }
}

/** `disk`: files on this device are asked in place, for what they are asked has just been read. */
async function lookAt(
  fileSystem: FileSystem,
  root: string,
  names: readonly string[],
  { disk, realRoot, check }: { disk: bigint | undefined; realRoot: string; check: Check },
): Promise<FoundFile[]> {
  const files: FoundFile[] = [];
  const scanned = scannedFileSystem();
  const look = async (name: string): Promise<FoundFile> => {
    const path = `${root}/${name}`;
    const { dev, ino, size } = await fileSystem.lstat(path);
    const quickest = dev === disk ? scanned : fileSystem;
    const found = { realPath: `${realRoot}/${name}`, dev, ino };
    return { name, sizeBytes: Number(size), open: () => FileSource.open(path, quickest, { scanned: found }) };
  };
  for (let start = 0; start < names.length; start += STATS_AT_A_TIME) {
    check();
    files.push(...(await Promise.all(names.slice(start, start + STATS_AT_A_TIME).map(look))));
  }
  return files;
}

function invalid(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} ${what}`, { context: { path } });
}
