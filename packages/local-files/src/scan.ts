import type { BigIntStats } from 'node:fs';
import {
  CheckpointError,
  compareUtf8,
  type FoundDirectory,
  type FoundFile,
  type FoundTree,
  type ScanOptions,
  throwIfAborted,
} from '@holdfast/core/contract';
import type { Check } from './direct-file.ts';
import { errnoOf, fileError } from './errno.ts';
import { diskFileSystem, type FileSystem, nodeFileSystem, scannedFileSystem } from './file-system.ts';
import { isAtOrBelow, localPath } from './local-path.ts';
import { fileSystemAt } from './mounts.ts';
import { millisecondsOf } from './mtime.ts';
import { FileSource } from './source.ts';
import { type TreeEntry, walkTree } from './tree.ts';

const REFUSALS: Readonly<Record<Exclude<TreeEntry['kind'], 'file' | 'directory'>, string>> = {
  link: 'is a symbolic link; follow or skip links, or replace it with the file itself',
  special: 'is a socket, a named pipe or a device; only regular files can be saved',
  unnameable: 'has a name that is not valid UTF-8; rename it',
};

/** Programs behind FUSE may give a file another inode number each time its name is looked up. */
const FUSE = 0x65735546n;

/** Enough to keep the thread pool busy, few enough to stop soon. */
const STATS_AT_A_TIME = 64;

/** See `LocalFiles.scan`. The directory itself may be a symbolic link. */
export async function scanDirectory(
  directory: string,
  options: ScanOptions = {},
  fileSystem: FileSystem = nodeFileSystem,
): Promise<FoundTree> {
  const root = localPath(directory);
  const places: Place[] = [];
  const directories: Place[] = [];
  const check = () => throwIfAborted(options.signal);
  try {
    check();
    const stats = await fileSystem.stat(root);
    if (!stats.isDirectory()) throw invalid(root, 'is not a directory');
    const realRoot = await fileSystem.realpath(root);
    const walk = { fileSystem, options, check };
    const top: Place = { path: root, realPath: realRoot, name: '', kind: 'directory' };
    let last: Place | undefined;
    for await (const place of placesBelow(walk, top, [realRoot])) {
      if (isEmptyBefore(last, place)) directories.push(last);
      if (place.kind === 'file') places.push(place);
      last = place;
    }
    if (isEmptyBefore(last, undefined)) directories.push(last);
    if (places.length === 0)
      throw invalid(root, options.isExcluded ? 'holds no file that is not excluded' : 'holds no file');
    if (options.links === 'follow') places.sort(byName);
    const isOnDisk = fileSystem === nodeFileSystem && (await fileSystemAt(root)) === diskFileSystem;
    const isFuse = (await fileSystem.statfs(root)).type === FUSE;
    const seen = await lookAt(fileSystem, places, { hasInodes: !isFuse, check });
    const scanned = scannedFileSystem();
    const quickest = ({ dev }: SeenFile) => (isOnDisk && dev === stats.dev ? scanned : fileSystem);
    return {
      files: seen.map((each) => foundFile(each, quickest(each))),
      directories: await timesOf(fileSystem, directories.sort(byName), check),
      assertUnchanged: () => assertUnchanged(root, seen, { quickest, check }),
    };
  } catch (error) {
    throw fileError(error, `read the directory ${root}`, { path: root });
  }
}

function byName(a: Place, b: Place): number {
  return compareUtf8(a.name, b.name);
}

/**
 * A directory comes before its contents. So a directory is empty if the next place does not lie in
 * it.
 */
function isEmptyBefore(place: Place | undefined, next: Place | undefined): place is Place {
  return place?.kind === 'directory' && next?.name.startsWith(`${place.name}/`) !== true;
}

/** A file or directory below the scanned directory. */
interface Place {
  readonly kind: 'file' | 'directory';
  readonly path: string;
  /** Without links. */
  readonly realPath: string;
  readonly name: string;
}

interface Walk {
  readonly fileSystem: FileSystem;
  readonly options: ScanOptions;
  readonly check: Check;
}

/**
 * `followed`: real paths of the directories that lead here: the scanned one, and those reached by
 * links.
 */
async function* placesBelow(
  walk: Walk,
  directory: Place,
  followed: readonly string[],
): AsyncGenerator<Place, void, void> {
  const { fileSystem, options, check } = walk;
  const { isExcluded, links = 'refuse' } = options;
  const nameOf = (name: string) => (directory.name === '' ? name : `${directory.name}/${name}`);
  const entries = walkTree(fileSystem, directory.path, {
    missing: 'throw',
    withDirectories: true,
    check,
    isExcluded: isExcluded && ((name) => isExcluded(nameOf(name))),
  });
  for await (const entry of entries) {
    const path = `${directory.path}/${entry.name}`;
    const name = nameOf(entry.name);
    if (entry.kind === 'file' || entry.kind === 'directory')
      yield { path, realPath: `${directory.realPath}/${entry.name}`, name, kind: entry.kind };
    else if (entry.kind !== 'link' || links === 'refuse') throw invalid(path, REFUSALS[entry.kind]);
    else if (links === 'follow')
      yield* placesBehind(walk, { path, realPath: directory.realPath, name, kind: 'file' }, followed);
  }
}

/** `link.realPath`: of the directory that contains the link. */
async function* placesBehind(
  walk: Walk,
  link: Place,
  followed: readonly string[],
): AsyncGenerator<Place, void, void> {
  const { fileSystem } = walk;
  const target = await fileSystem.realpath(link.path).catch((error: unknown) => {
    if (['ENOENT', 'ELOOP'].includes(errnoOf(error) ?? ''))
      throw invalid(link.path, 'is a symbolic link to a file that does not exist');
    throw error;
  });
  walk.options.onFollowed?.(target);
  const stats = await fileSystem.stat(target);
  const found = { path: target, realPath: target, name: link.name };
  if (stats.isFile()) yield { ...found, kind: 'file' };
  else if (!stats.isDirectory()) throw invalid(link.path, REFUSALS.special);
  else if ([link.realPath, ...followed].some((each) => isAtOrBelow(each, target)))
    throw invalid(link.path, 'is a symbolic link to a directory that contains it');
  else {
    const behind: Place = { ...found, kind: 'directory' };
    yield behind;
    yield* placesBelow(walk, behind, [...followed, target]);
  }
}

async function timesOf(
  fileSystem: FileSystem,
  places: readonly Place[],
  check: Check,
): Promise<FoundDirectory[]> {
  const found: FoundDirectory[] = [];
  for (let start = 0; start < places.length; start += STATS_AT_A_TIME) {
    check();
    const some = places.slice(start, start + STATS_AT_A_TIME);
    const stats = await Promise.all(some.map(({ path }) => fileSystem.lstat(path)));
    for (const [index, { name }] of some.entries())
      found.push({ name, mtimeMs: millisecondsOf(stats[index] as BigIntStats) });
  }
  return found;
}

/** Kept until the end of the save, so without the other facts of a file. */
interface SeenFile {
  readonly place: Place;
  readonly dev: bigint;
  /** As of `ScannedFile`: with `null` only size and time tell files apart. */
  readonly ino: bigint | null;
  readonly size: bigint;
  readonly mtimeNs: bigint;
}

async function lookAt(
  fileSystem: FileSystem,
  places: readonly Place[],
  { hasInodes, check }: { hasInodes: boolean; check: Check },
): Promise<SeenFile[]> {
  const seen: SeenFile[] = [];
  for (let start = 0; start < places.length; start += STATS_AT_A_TIME) {
    check();
    const some = places.slice(start, start + STATS_AT_A_TIME);
    const look = async (place: Place): Promise<SeenFile> => {
      const { dev, ino, size, mtimeNs } = await fileSystem.lstat(place.path);
      return { place, dev, ino: hasInodes ? ino : null, size, mtimeNs };
    };
    seen.push(...(await Promise.all(some.map(look))));
  }
  return seen;
}

function foundFile({ place, dev, ino, size }: SeenFile, fileSystem: FileSystem): FoundFile {
  const { name, path, realPath } = place;
  const scanned = { realPath, dev, ino };
  return { name, sizeBytes: Number(size), open: () => FileSource.open(path, fileSystem, { scanned }) };
}

/**
 * A directory may be replaced while its files are looked at or opened, by one or two renames that
 * change no file. So each name, links included, must still lead to the file that the scan found.
 */
async function assertUnchanged(
  root: string,
  seen: readonly SeenFile[],
  { quickest, check }: { quickest: (seen: SeenFile) => FileSystem; check: Check },
): Promise<void> {
  for (let start = 0; start < seen.length; start += STATS_AT_A_TIME) {
    check();
    const look = async (each: SeenFile) => {
      const path = `${root}/${each.place.name}`;
      const now = await quickest(each)
        .stat(path)
        .catch((error: unknown) => {
          throw errnoOf(error) === 'ENOENT'
            ? changed(path, 'is gone')
            : fileError(error, `look at ${path}`, { path });
        });
      const { dev, ino, size, mtimeNs } = each;
      if (now.dev !== dev || (ino !== null && now.ino !== ino)) throw changed(path, 'is another file now');
      if (now.size !== size || now.mtimeNs !== mtimeNs) throw changed(path, 'was written to');
    };
    await Promise.all(seen.slice(start, start + STATS_AT_A_TIME).map(look));
  }
}

function changed(path: string, what: string): CheckpointError {
  const message = `${path} ${what} since its directory was read`;
  return new CheckpointError('SourceChanged', message, { context: { path } });
}

function invalid(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} ${what}`, { context: { path } });
}
