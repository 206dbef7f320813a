/**
 * Finds the file system that a path lies on, from Linux's /proc/self/mountinfo
 * (proc_pid_mountinfo(5)).
 */

import { diskFileSystem, type FileSystem, nodeFileSystem } from './file-system.ts';
import { isAtOrBelow } from './local-path.ts';

export interface Mount {
  readonly mountPoint: string;
  /** `ext4`, `fuse.s3fs`. */
  readonly fsType: string;
  /** `/dev/sda1`, a server's export, or the name that a FUSE program gives itself. */
  readonly source: string;
}

/** In the order of the file. Lines that cannot be parsed are skipped. */
export function parseMountInfo(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    // Optional fields, of any number, end with a lone "-".
    const [before, after] = line.split(' - ', 2);
    const mountPoint = before?.split(' ')[4];
    const [fsType, source] = after?.split(' ') ?? [];
    if (mountPoint === undefined || fsType === undefined) return [];
    return [{ mountPoint: unescapeOctal(mountPoint), fsType, source: unescapeOctal(source ?? '') }];
  });
}

/** The mount that an absolute path without links lies on. */
export function mountOf(mounts: readonly Mount[], path: string): Mount | undefined {
  let found: Mount | undefined;
  for (const mount of mounts) {
    const { mountPoint } = mount;
    // A later mount on the same mount point covers an earlier one.
    if (isAtOrBelow(path, mountPoint) && mountPoint.length >= (found?.mountPoint.length ?? 0)) found = mount;
  }
  return found;
}

/** Resolves to `undefined` without /proc. */
export async function mountOfDirectory(
  fileSystem: Pick<FileSystem, 'readText' | 'realpath'>,
  directory: string,
): Promise<Mount | undefined> {
  if (process.platform !== 'linux') return undefined;
  const mountInfo = await fileSystem.readText('/proc/self/mountinfo').catch(() => '');
  return mountOf(parseMountInfo(mountInfo), await fileSystem.realpath(directory));
}

/**
 * The kernel writes space, tab, newline and backslash as three octal digits each. The rest is UTF-8
 * as it is.
 */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/**
 * Programs that mount a bucket as a directory, and the scheme of the store behind it. They lack an
 * atomic `link`, ignore fsync, or show half-written files. JuiceFS and CephFS are not listed: they
 * keep files of their own in a bucket, with the semantics of a disk.
 */
const BUCKET_MOUNTS: Readonly<Record<string, string>> = {
  s3fs: 's3://',
  goofys: 's3://',
  geesefs: 's3://',
  'mountpoint-s3': 's3://',
  'mount-s3': 's3://',
  s3backer: 's3://',
  gcsfuse: 'gs://',
  blobfuse: 'az://',
  blobfuse2: 'az://',
  rclone: 's3://, gs:// or az://',
};

/** If the mount is a bucket: its program, and the scheme to use instead. */
export function bucketMount(mount: Mount): { readonly program: string; readonly scheme: string } | null {
  if (mount.fsType !== 'fuse' && !mount.fsType.startsWith('fuse.')) return null;
  // "fuse.s3fs" names the program. A plain "fuse" names it, if at all, in the source
  // ("mountpoint-s3", "s3fs#bucket").
  const program = mount.fsType === 'fuse' ? mount.source.split('#')[0] : mount.fsType.slice('fuse.'.length);
  if (program === undefined || !Object.hasOwn(BUCKET_MOUNTS, program)) return null;
  return { program, scheme: BUCKET_MOUNTS[program] as string };
}

const PSEUDO_FILE_SYSTEMS = new Set([
  ...['binfmt_misc', 'bpf', 'cgroup', 'cgroup2', 'configfs', 'debugfs', 'devpts', 'efivarfs', 'fusectl'],
  ...['mqueue', 'nsfs', 'proc', 'pstore', 'securityfs', 'selinuxfs', 'sysfs', 'tracefs'],
]);

/** It shows the state of the kernel, and keeps no files. */
export function isPseudoFileSystem(mount: Mount): boolean {
  return PSEUDO_FILE_SYSTEMS.has(mount.fsType);
}

const LOCAL_DISKS = new Set(['ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'bcachefs', 'f2fs', 'zfs', 'tmpfs']);

/** A file system of this type answers queries about an open file from memory. */
export function isLocalDisk(mount: Mount): boolean {
  return LOCAL_DISKS.has(mount.fsType);
}

/** The fastest `FileSystem` that is correct for the files of a directory. */
export async function fileSystemAt(directory: string): Promise<FileSystem> {
  const mount = await mountOfDirectory(nodeFileSystem, directory);
  return mount !== undefined && isLocalDisk(mount) ? diskFileSystem : nodeFileSystem;
}
