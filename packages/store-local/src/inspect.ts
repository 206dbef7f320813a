/** What the location of a directory means for checkpoints. */

import type { StoreFact } from '@holdfast/core/contract';
import { type FileSystem, type Mount, mountOfDirectory } from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';
import { existingDirectory } from './existing-directory.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** With less free space than this, anything on the file system may soon fill it. */
const FREE_PERCENT_MIN = 5;

/** Here the machine that writes a file sets its time, not a server. */
const OWN_TIMES: readonly [meaning: string, advice: string] = [
  'each machine uses its own clock: leases and grace periods are wrong by as much as the clocks differ',
  'keep the clocks of all machines that use it within a minute of each other (NTP)',
];

/** File systems that need a warning before a run is stored there, and why. */
const CONCERNS: Readonly<Record<string, readonly [meaning: string, advice: string]>> = {
  tmpfs: [
    'files in memory are lost when the machine restarts or loses power',
    'use a directory on a disk, unless these checkpoints may be lost',
  ],
  ramfs: [
    'files in memory are lost when the machine restarts or loses power',
    'use a directory on a disk, unless these checkpoints may be lost',
  ],
  overlay: [
    'the files of a container are deleted with it',
    'mount a volume for the checkpoints, unless this overlay is permanent',
  ],
  lustre: OWN_TIMES,
  ceph: OWN_TIMES,
  'fuse.ceph': OWN_TIMES,
  'fuse.glusterfs': OWN_TIMES,
  'fuse.juicefs': OWN_TIMES,
  beegfs: OWN_TIMES,
};

/** Reports fewer facts on systems other than Linux. */
export async function inspectDirectory(
  config: LocalConfig,
  fileSystem: FileSystem,
): Promise<readonly StoreFact[]> {
  const directory = await existingDirectory(config, fileSystem);
  const mount = await mountOfDirectory(fileSystem, directory);
  return [
    ...(mount === undefined ? [] : [mountFact(mount)]),
    await roomFact(directory, fileSystem),
    durabilityFact(config),
  ];
}

function mountFact({ fsType, source, mountPoint }: Mount): StoreFact {
  const [id, title] = ['file-system', 'file system'];
  const seen = `${fsType} (${source}) at ${mountPoint}`;
  const concern = Object.hasOwn(CONCERNS, fsType) ? CONCERNS[fsType] : undefined;
  if (concern === undefined) return { id, title, seen };
  const [meaning, advice] = concern;
  return { id, title, seen, concern: { meaning, advice } };
}

async function roomFact(directory: string, fileSystem: FileSystem): Promise<StoreFact> {
  const { bavail, blocks, bsize } = await fileSystem.statfs(directory);
  const [freeBytes, totalBytes] = [Number(bavail * bsize), Number(blocks * bsize)];
  const [id, title] = ['room', 'room'];
  // Some network and kernel file systems report no size.
  if (totalBytes === 0) return { id, title, seen: 'this file system does not report it' };
  const seen = `${roomText(freeBytes, totalBytes)} are free`;
  if (freeBytes * 100 >= totalBytes * FREE_PERCENT_MIN) return { id, title, seen };
  const meaning = 'when it is full, a save ends with StorageFull, and other writes there fail';
  return { id, title, seen, concern: { meaning, advice: 'free space, or use a larger file system' } };
}

/**
 * `50.0 of 100.0 GiB`. Each number has a unit in which it is not close to zero. Equal units appear
 * once.
 */
function roomText(freeBytes: number, totalBytes: number): string {
  const [free, total] = [sizeText(freeBytes), sizeText(totalBytes)];
  const isOneUnit = free.unit === total.unit || freeBytes === 0;
  return `${isOneUnit ? free.amount : `${free.amount} ${free.unit}`} of ${total.amount} ${total.unit}`;
}

function sizeText(bytes: number): { amount: string; unit: string } {
  const [unitBytes, unit] = bytes < GIB ? [MIB, 'MiB'] : [GIB, 'GiB'];
  return { amount: (bytes / unitBytes).toFixed(1), unit };
}

function durabilityFact({ durability }: LocalConfig): StoreFact {
  const [id, title] = ['durability', 'durability'];
  if (durability === 'fsync') return { id, title, seen: 'every write is synced' };
  const meaning = 'committed checkpoints may be lost or damaged in a power failure';
  const advice = 'remove durability=none from the URI';
  return { id, title, seen: 'no write is synced', concern: { meaning, advice } };
}
