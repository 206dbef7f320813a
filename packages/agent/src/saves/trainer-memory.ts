/**
 * Memory of a trainer without a name (memfd), which the agent reads through the trainer's
 * descriptor.
 *
 * The agent has rights that the trainer may lack. A trainer can give every file the name of such
 * memory, by mounts of its own. It can hold a descriptor of a file that it may not read (O_PATH),
 * and put another file behind the same number at any time. So the file is held first, by a
 * descriptor that only names it. It is opened only if what is held is memory, and if the trainer's
 * own descriptor of it may read.
 */

import { type BigIntStats, constants, readFileSync } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';
import { DirectFile, fileError, memoryFileSystem } from '@holdfast/local-files';
import { isMemory } from '../staging/held-directory.ts';

/** What memory that is handed over must be called; see memfd_create(2). */
const MEMORY_NAME = 'holdfast-';
/** Node does not name it. The same on all processors that Node runs on. */
const O_PATH = 0o10000000;
const O_ACCMODE = 0o3;

export interface MemoryOfTrainer {
  readonly pid: number;
  readonly fd: number;
  /** The end of its name. */
  readonly segment: string;
  /** Names the caller's process: its memory bears this name. */
  readonly life: string;
}

/**
 * The open file, and what `fstat` says of it. `assertOwner` throws if it may not be of this user.
 * `Denied`: it is not this memory, or the trainer may not read it. `NotFound`: nothing is open.
 */
export async function openTrainerMemory(
  { pid, fd, segment, life }: MemoryOfTrainer,
  assertOwner: (path: string, uid: number) => void,
): Promise<{ file: DirectFile; stats: BigIntStats; path: string }> {
  const path = `/proc/${pid}/fd/${fd}`;
  const name = `/memfd:${MEMORY_NAME}${life}-${segment} (deleted)`;
  const held = await open(path, O_PATH, path);
  try {
    const stats = await held.stat();
    // The name tells the segments of a trainer apart: descriptors are used again. It proves
    // nothing. Memory never had another name, and the place of a file that was removed is not told.
    const isNamed = (await held.place()) === name;
    if (!isNamed || !stats.isFile() || stats.nlink !== 0n || !isMemory(await held.fileSystemType()))
      throw denied(path, 'is not this memory of the trainer');
    assertOwner(path, Number(stats.uid));
    const file = await held.within(async (here) => {
      assertReadable(path, factsOf(`/proc/${pid}/fdinfo/${fd}`, path), factsOf(infoOf(here), path));
      return open(here, constants.O_RDONLY | constants.O_NONBLOCK, path);
    });
    return { file, stats, path };
  } finally {
    await held.close();
  }
}

/** `theirs` is read at once, so its flags and its file are of one moment. */
function assertReadable(path: string, theirs: DescriptorFacts, held: DescriptorFacts): void {
  const { flags, mount, inode } = theirs;
  const access = flags & O_ACCMODE;
  const mayRead = (access === constants.O_RDONLY || access === constants.O_RDWR) && (flags & O_PATH) === 0;
  if (!mayRead) throw denied(path, 'is not open for reading in the trainer');
  if (mount !== held.mount || inode !== held.inode) throw denied(path, 'is not this memory of the trainer');
}

interface DescriptorFacts {
  readonly flags: number;
  readonly mount: string | undefined;
  /** Linux 5.14 and newer tell it. */
  readonly inode: string | undefined;
}

/** See proc_pid_fdinfo(5). In place, as all calls on memory: see `memoryFileSystem`. */
function factsOf(infoPath: string, shown: string): DescriptorFacts {
  let text: string;
  try {
    text = readFileSync(infoPath, 'latin1');
  } catch (error) {
    throw fileError(error, `look at ${shown}`, { path: shown });
  }
  const field = (name: string) => new RegExp(`^${name}:\\s*(\\d+)$`, 'm').exec(text)?.[1];
  // A system that does not tell the flags is not trusted: as one that names only.
  return {
    flags: Number.parseInt(field('flags') ?? '10000000', 8),
    mount: field('mnt_id'),
    inode: field('ino'),
  };
}

function infoOf(here: string): string {
  return here.replace('/fd/', '/fdinfo/');
}

async function open(path: string, flags: number, shown: string): Promise<DirectFile> {
  try {
    return await DirectFile.open(path, flags, { direct: false, fileSystem: memoryFileSystem });
  } catch (error) {
    throw fileError(error, `open ${shown}`, { path: shown });
  }
}

function denied(path: string, what: string): CheckpointError {
  return new CheckpointError('Denied', `${path} ${what}`, { context: { path } });
}
