import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { nodeFileSystem } from './file-system.ts';
import { bucketMount, fileSystemAt, isLocalDisk, mountOf, parseMountInfo } from './mounts.ts';

const SAMPLE = [
  '22 27 0:21 / /proc rw,relatime - proc proc rw',
  '27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard',
  '40 27 0:50 / /mnt/with\\040space\\134and\\011tab rw - tmpfs none rw',
  '41 27 0:51 / /mnt/bucket rw,nosuid shared:9 - fuse.s3fs s3fs rw,user_id=0',
  '42 27 0:52 / /mnt/mountpoint rw - fuse mountpoint-s3 rw',
  '43 27 0:53 / /mnt/over rw - ext4 /dev/vdb rw',
  '44 43 0:54 / /mnt/over rw - fuse.gcsfuse my-bucket rw',
  'not a line of a mount',
  '',
].join('\n');

describe('parseMountInfo', () => {
  it('takes mount point, type and source, whatever optional fields there are', () => {
    expect(
      parseMountInfo(SAMPLE).map(({ mountPoint, fsType, source }) => [mountPoint, fsType, source]),
    ).toEqual([
      ['/proc', 'proc', 'proc'],
      ['/', 'ext4', '/dev/vda'],
      ['/mnt/with space\\and\ttab', 'tmpfs', 'none'],
      ['/mnt/bucket', 'fuse.s3fs', 's3fs'],
      ['/mnt/mountpoint', 'fuse', 'mountpoint-s3'],
      ['/mnt/over', 'ext4', '/dev/vdb'],
      ['/mnt/over', 'fuse.gcsfuse', 'my-bucket'],
    ]);
  });

  it.runIf(process.platform === 'linux')('understands every line of this machine', async () => {
    const text = await readFile('/proc/self/mountinfo', 'utf8');
    const mounts = parseMountInfo(text);
    expect(mounts).toHaveLength(text.trimEnd().split('\n').length);
    expect(mountOf(mounts, '/proc')?.fsType).toBe('proc');
  });
});

describe('mountOf', () => {
  const mounts = parseMountInfo(SAMPLE);

  it.each([
    ['/', '/dev/vda'],
    ['/mnt', '/dev/vda'],
    ['/mnt/bucket', 's3fs'],
    ['/mnt/bucket/run/1', 's3fs'],
    ['/mnt/bucketful', '/dev/vda'],
    ['/mnt/over/x', 'my-bucket'],
  ])('%s lies on %s', (path, source) => {
    expect(mountOf(mounts, path)?.source).toBe(source);
  });

  it('without mounts there is no mount above a path', () => {
    expect(mountOf([], '/a')).toBeUndefined();
  });
});

describe('bucketMount', () => {
  it.each([
    ['fuse.s3fs', 's3fs', 's3fs', 's3://'],
    ['fuse', 's3fs#bucket', 's3fs', 's3://'],
    ['fuse.goofys', 'bucket', 'goofys', 's3://'],
    ['fuse', 'mountpoint-s3', 'mountpoint-s3', 's3://'],
    ['fuse.mountpoint-s3', 'x', 'mountpoint-s3', 's3://'],
    ['fuse.mount-s3', 'x', 'mount-s3', 's3://'],
    ['fuse.gcsfuse', 'bucket', 'gcsfuse', 'gs://'],
    ['fuse', 'gcsfuse', 'gcsfuse', 'gs://'],
    ['fuse', 'blobfuse2', 'blobfuse2', 'az://'],
    ['fuse.blobfuse', 'blobfuse', 'blobfuse', 'az://'],
    ['fuse.rclone', 'remote:bucket', 'rclone', 's3://, gs:// or az://'],
  ])('%s from %s is a bucket', (fsType, source, program, scheme) => {
    expect(bucketMount({ mountPoint: '/m', fsType, source })).toEqual({ program, scheme });
  });

  it.each([
    ['ext4', '/dev/vda'],
    ['ext4', 's3fs'],
    ['nfs4', 'server:/export'],
    ['fuse.juicefs', 'JuiceFS:x'],
    ['fuse.sshfs', 'host:'],
    ['fuse', '/dev/fuse'],
    ['fuse', 'constructor'],
    ['fuseblk', '/dev/sdb1'],
  ])('%s from %s is not', (fsType, source) => {
    expect(bucketMount({ mountPoint: '/m', fsType, source })).toBeNull();
  });
});

describe('isLocalDisk', () => {
  it.each([
    ['ext4', true],
    ['xfs', true],
    ['tmpfs', true],
    ['nfs4', false],
    ['cifs', false],
    ['fuse.sshfs', false],
    ['overlay', false],
  ])('%s: %s', (fsType, expected) => {
    expect(isLocalDisk({ mountPoint: '/', fsType, source: 'x' })).toBe(expected);
  });
});

describe('fileSystemAt', () => {
  it.runIf(process.platform === 'linux')(
    'a file system that is no local disk gets the thread pool for every call',
    async () => {
      expect(await fileSystemAt('/proc/self')).toBe(nodeFileSystem);
    },
  );
});
