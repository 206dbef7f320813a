import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles, localFiles } from './index.ts';
import { FileSource } from './source.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-source-'));
  path = join(directory, 'model.bin');
  writeFileSync(path, '0123456789', { mode: 0o640 });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('openSource', () => {
  it('knows size and mode, and reads any range', async () => {
    const source = await localFiles.openSource(path);
    expect([source.sizeBytes, source.mode]).toEqual([10, 0o640]);
    const buffer = new Uint8Array(4);
    await source.readInto(3, buffer);
    expect(Buffer.from(buffer).toString()).toBe('3456');
    await source.readInto(6, buffer);
    expect(Buffer.from(buffer).toString()).toBe('6789');
    await source.assertUnchanged();
    await source.close();
  });

  it('a symbolic link given by name is the file it names', async () => {
    symlinkSync('model.bin', join(directory, 'link'));
    const source = await localFiles.openSource(join(directory, 'link'));
    expect(source.sizeBytes).toBe(10);
    await source.close();
  });

  it('what is not there is NotFound', async () => {
    await expect(localFiles.openSource(join(directory, 'none'))).rejects.toEqual(
      code('NotFound', `${directory}/none`),
    );
    await expect(localFiles.openSource(join(path, 'below'))).rejects.toEqual(code('NotFound'));
  });

  it('a directory is InvalidArgument', async () => {
    await expect(localFiles.openSource(directory)).rejects.toEqual(code('InvalidArgument', 'is a directory'));
  });

  it.skipIf(process.platform === 'win32')(
    'a named pipe without a writer is InvalidArgument, at once',
    async () => {
      execFileSync('mkfifo', [join(directory, 'pipe')]);
      await expect(localFiles.openSource(join(directory, 'pipe'))).rejects.toEqual(
        code('InvalidArgument', 'a named pipe'),
      );
    },
  );

  it('a socket is InvalidArgument', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(directory, 'socket'), resolve));
    await expect(localFiles.openSource(join(directory, 'socket'))).rejects.toEqual(
      code('InvalidArgument', 'a socket'),
    );
    await new Promise((resolve) => server.close(resolve));
  });

  it('a device is InvalidArgument', async () => {
    await expect(localFiles.openSource('/dev/null')).rejects.toEqual(code('InvalidArgument', 'a device'));
  });

  it.runIf(process.platform === 'linux')(
    'a file that has bytes and says that it has none is InvalidArgument, alone and in a directory',
    async () => {
      await expect(localFiles.openSource('/proc/self/status')).rejects.toEqual(
        code('InvalidArgument', '/proc/self/status has bytes and says that it has none'),
      );
      const { files } = await localFiles.scan('/proc/self/net');
      const file = files.find(({ name }) => name === 'dev');
      await expect(file?.open()).rejects.toEqual(code('InvalidArgument', 'says that it has none'));
    },
  );

  it('an empty file is opened with one read of one byte, and is SourceChanged if it is written to meanwhile', async () => {
    truncateSync(path, 0);
    let reads = 0;
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      read: (descriptor, position) => {
        reads += position.lengthBytes;
        return nodeFileSystem.read(descriptor, position);
      },
    };
    const source = await createLocalFiles(fileSystem).openSource(path);
    expect([source.sizeBytes, reads]).toEqual([0, 1]);
    await source.close();
    const read: FileSystem['read'] = (descriptor, position) => {
      writeFileSync(path, 'more');
      return nodeFileSystem.read(descriptor, position);
    };
    const opening = createLocalFiles({ ...nodeFileSystem, read }).openSource(path);
    await expect(opening).rejects.toEqual(code('SourceChanged', path));
  });

  it('a file that may not be read is Denied', async () => {
    const files = createLocalFiles({ ...nodeFileSystem, open: () => Promise.reject(errnoError('EACCES')) });
    await expect(files.openSource(path)).rejects.toEqual(code('Denied', path));
  });

  it('no descriptor stays open when it fails', async () => {
    const open = new Set<number>();
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      open: async (name, flags) => {
        const descriptor = await nodeFileSystem.open(name, flags);
        open.add(descriptor);
        return descriptor;
      },
      close: async (descriptor) => {
        open.delete(descriptor);
        await nodeFileSystem.close(descriptor);
      },
    };
    await expect(createLocalFiles(fileSystem).openSource(directory)).rejects.toEqual(code('InvalidArgument'));
    const failing = createLocalFiles({ ...fileSystem, fstat: () => Promise.reject(errnoError('EIO')) });
    await expect(failing.openSource(path)).rejects.toEqual(code('Unavailable'));
    expect(open.size).toBe(0);
  });
});

describe('a source that changes', () => {
  const changes: [string, () => void][] = [
    ['grows', () => appendFileSync(path, 'more')],
    ['shrinks', () => truncateSync(path, 5)],
    ['is written to in place', () => writeFileSync(path, '9876543210', { flag: 'r+' })],
    [
      'is written to and given its old times',
      () => {
        writeFileSync(path, '9876543210', { flag: 'r+' });
        utimesSync(path, 1, 1);
      },
    ],
    ['is given another mode', () => chmodSync(path, 0o600)],
    [
      'is replaced by another file',
      () => {
        writeFileSync(`${path}.new`, '9876543210');
        renameSync(`${path}.new`, path);
      },
    ],
  ];
  it.each(changes)('%s: SourceChanged names it', async (_what, change) => {
    const source = await localFiles.openSource(path);
    await source.assertUnchanged();
    change();
    await expect(source.assertUnchanged()).rejects.toEqual(code('SourceChanged', path));
    await source.close();
  });

  it('a read past its new end is SourceChanged', async () => {
    const source = await localFiles.openSource(path);
    truncateSync(path, 5);
    await expect(source.readInto(2, new Uint8Array(8))).rejects.toEqual(
      code('SourceChanged', 'ends at byte 5'),
    );
    await source.close();
  });

  it('an unreadable device is Unavailable, when read and when looked at', async () => {
    const files = createLocalFiles({ ...nodeFileSystem, read: () => Promise.reject(errnoError('EIO')) });
    const source = await files.openSource(path);
    await expect(source.readInto(0, new Uint8Array(2))).rejects.toEqual(code('Unavailable', path));
    await source.close();

    let stats = 0;
    const later = createLocalFiles({
      ...nodeFileSystem,
      fstat: (descriptor) =>
        stats++ === 0 ? nodeFileSystem.fstat(descriptor) : Promise.reject(errnoError('ESTALE')),
    });
    const other = await later.openSource(path);
    await expect(other.assertUnchanged()).rejects.toEqual(code('Unavailable', path));
    await other.close();
  });
});

describe('mayHideChanges: whether a change may show in the bytes alone', () => {
  const EXT4 = 0xef53n;
  const TMPFS = 0x01021994n;
  const [LARGE, LESS] = [16 * 1024 * 1024, 16 * 1024 * 1024 - 1];

  /** Opens a file of this size, changed this long ago, on a file system of this type. */
  async function open(
    { sizeBytes = LARGE, ageMs = 61_000, type = EXT4 },
    overrides: Partial<FileSystem> = {},
  ): Promise<{ mayHideChanges: boolean | undefined; syncs: number }> {
    truncateSync(path, sizeBytes);
    let syncs = 0;
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      statfs: async (of) => Object.assign(await nodeFileSystem.statfs(of), { type }),
      fdatasync: async (descriptor) => {
        syncs++;
        await nodeFileSystem.fdatasync(descriptor);
      },
      ...overrides,
    };
    const files = createLocalFiles(fileSystem, undefined, () => Date.now() + ageMs);
    const source = await files.openSource(path);
    await source.assertUnchanged();
    await source.close();
    return { mayHideChanges: source.mayHideChanges, syncs };
  }

  it.each([EXT4, 0x58465342n, 0x9123683en])(
    'no: large, quiet for a minute, synced, on a disk (%i)',
    async (type) => {
      expect(await open({ type })).toEqual({ mayHideChanges: false, syncs: 1 });
    },
  );

  it.each([
    ['it was changed less than a minute ago: a sync could take long', { ageMs: 58_000 }],
    ['it is small: read again in no time', { sizeBytes: LESS }],
    ['it lies on a file system that never tells, such as tmpfs', { type: TMPFS }],
  ])('yes, and it is not synced: %s', async (_, file) => {
    expect(await open(file)).toEqual({ mayHideChanges: true, syncs: 0 });
  });

  it('yes, where the system does not say what it lies on', async () => {
    const statfs = () => Promise.reject(errnoError('ENOENT'));
    expect(await open({}, { statfs })).toEqual({ mayHideChanges: true, syncs: 0 });
  });

  it('yes, where it cannot be synced', async () => {
    const fdatasync = () => Promise.reject(errnoError('EIO'));
    expect(await open({}, { fdatasync })).toEqual({ mayHideChanges: true, syncs: 0 });
  });

  it('yes, where it was written to while it was synced: that page is open for more', async () => {
    const source = open(
      {},
      {
        fdatasync: async () => {
          utimesSync(path, 1, 1);
        },
      },
    );
    await expect(source).rejects.toEqual(code('SourceChanged'));
  });
});

describe('settle', () => {
  async function settled(overrides: Partial<FileSystem>): Promise<unknown> {
    writeFileSync(path, 'bytes');
    const source = await FileSource.open(path, { ...nodeFileSystem, ...overrides });
    try {
      return await source.settle().catch((error: unknown) => error);
    } finally {
      await source.close();
    }
  }

  it('syncs a file that has just been written', async () => {
    const fdatasync = vi.fn(nodeFileSystem.fdatasync);
    expect(await settled({ fdatasync })).toBeUndefined();
    expect(fdatasync).toHaveBeenCalledTimes(1);
  });

  it('rejects if the file cannot be synced, and names it', async () => {
    const fdatasync = () => Promise.reject(errnoError('EIO'));
    expect(await settled({ fdatasync })).toMatchObject(code('Unavailable', path));
  });

  it('rejects if the file has changed since it was opened', async () => {
    const fdatasync = async () => utimesSync(path, 1, 1);
    expect(await settled({ fdatasync })).toEqual(code('SourceChanged'));
  });
});
