/**
 * An open file, read and written past the page cache (O_DIRECT) where the file system allows it.
 *
 * A write through the page cache copies each byte once more, and fdatasync then waits for the copy
 * to be written. On the machines measured it took four times as long as O_DIRECT. O_DIRECT requires
 * an aligned buffer address, offset and length, and does not exist everywhere. So each file has a
 * buffered descriptor. A direct descriptor is opened beside it at the first transfer that can use
 * it. Both name the same inode: the kernel keeps them coherent, and one fdatasync covers both.
 *
 * An unaligned tail goes through the buffered descriptor. The alternative is to write a padded
 * block and truncate. It would need room behind the caller's bytes and a truncation that no
 * concurrent part may undo, and it was not faster.
 */

import { type BigIntStats, constants } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';
import { errnoOf } from './errno.ts';
import { type FileSystem, type IoPosition, nodeFileSystem } from './file-system.ts';
import { secondsOf } from './mtime.ts';

/**
 * Direct transfers need an address, offset and length that are multiples of this. It is a page, and
 * at least the logical block of any common disk.
 */
export const DIRECT_ALIGNMENT_BYTES = 4096;

/** Below this size the copy costs less than the second descriptor. */
const DIRECT_BYTES_MIN = 256 * 1024;

/**
 * Limit of one system call. A call cannot be interrupted, and an abort should not wait for a
 * gigabyte.
 */
const CALL_BYTES_MAX = 64 * 1024 * 1024;

/** Linux only; 0 elsewhere. */
const O_DIRECT: number = constants.O_DIRECT ?? 0;

/** Called before each system call of a long operation; throws to stop it. */
export type Check = () => void;

const proceed: Check = () => undefined;

export interface DirectFileOptions {
  /** False: everything goes through the page cache. Default true. */
  direct?: boolean | undefined;
  /** Mode of a file that is created. The process's umask applies. Default 0o666. */
  mode?: number | undefined;
  fileSystem?: FileSystem | undefined;
}

/** Errors of the system calls are passed on as Node reports them; `fileError` translates. */
export class DirectFile {
  readonly #fileSystem: FileSystem;
  readonly #descriptor: number;
  readonly #flags: number;
  #directDescriptor: Promise<number | null> | null;
  /**
   * Memory that a direct call rejected: its address is unaligned, or there is no O_DIRECT after
   * all.
   */
  readonly #refused = new WeakSet<ArrayBufferLike>();
  /** Bytes were written that no `datasync` has made durable. */
  #isDirty = false;
  #calls = 0;
  #whenIdle: (() => void) | null = null;
  #closing: Promise<void> | null = null;

  private constructor(fileSystem: FileSystem, descriptor: number, flags: number, mayBeDirect: boolean) {
    this.#fileSystem = fileSystem;
    this.#descriptor = descriptor;
    this.#flags = flags;
    this.#directDescriptor = mayBeDirect ? null : Promise.resolve(null);
  }

  static async open(path: string, flags: number, options: DirectFileOptions = {}): Promise<DirectFile> {
    const fileSystem = options.fileSystem ?? nodeFileSystem;
    const descriptor = await fileSystem.open(path, flags, options.mode ?? 0o666);
    return new DirectFile(fileSystem, descriptor, flags, (options.direct ?? true) && O_DIRECT !== 0);
  }

  /**
   * Fills `buffer` from `offsetBytes` on and resolves to the number of bytes read. It reads less
   * only at the end of the file. Reads are fastest if `buffer` lies in a `WebAssembly.Memory`,
   * whose address is aligned to pages, and if offset and `byteOffset` are aligned too.
   */
  read(offsetBytes: number, buffer: Uint8Array, check: Check = proceed): Promise<number> {
    return this.#use(async () => {
      let doneBytes = 0;
      while (doneBytes < buffer.byteLength) {
        check();
        const count = await this.#transfer('read', buffer, doneBytes, offsetBytes + doneBytes);
        if (count === 0) break;
        doneBytes += count;
      }
      return doneBytes;
    });
  }

  /**
   * Writes all of `buffer` at `offsetBytes`. Concurrent writes must not overlap. The bytes are
   * durable only after `datasync`.
   */
  write(offsetBytes: number, buffer: Uint8Array, check: Check = proceed): Promise<void> {
    return this.#use(async () => {
      let doneBytes = 0;
      while (doneBytes < buffer.byteLength) {
        check();
        this.#isDirty = true;
        const count = await this.#transfer('write', buffer, doneBytes, offsetBytes + doneBytes);
        if (count === 0) throw noProgress();
        doneBytes += count;
      }
    });
  }

  /**
   * Makes durable all bytes written so far, the size, and the metadata needed to read them. After
   * an error the content of the file is unknown.
   */
  datasync(): Promise<void> {
    return this.#use(async () => {
      this.#isDirty = false; // not after the call: another write may begin meanwhile
      try {
        await this.#fileSystem.fdatasync(this.#descriptor);
      } catch (error) {
        this.#isDirty = true;
        throw error;
      }
    });
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#use(() => this.#fileSystem.ftruncate(this.#descriptor, sizeBytes));
  }

  chmod(mode: number): Promise<void> {
    return this.#use(() => this.#fileSystem.fchmod(this.#descriptor, mode));
  }

  /** Leaves the access time unchanged. */
  setModified(timeMs: number): Promise<void> {
    return this.#use(async () => {
      const { atimeNs } = await this.#fileSystem.fstat(this.#descriptor);
      await this.#fileSystem.futimes(this.#descriptor, Number(atimeNs) / 1e9, secondsOf(timeMs));
    });
  }

  stat(): Promise<BigIntStats> {
    return this.#use(() => this.#fileSystem.fstat(this.#descriptor));
  }

  /**
   * For a directory: `here` leads to it until `work` settles, even if its path changes. Needs
   * /proc.
   */
  within<T>(work: (here: string) => Promise<T>): Promise<T> {
    return this.#use(() => work(`/proc/self/fd/${this.#descriptor}`));
  }

  /** Path of the open file, without links; `null` if the system does not report it. */
  place(): Promise<string | null> {
    return this.#use(() => this.#fileSystem.readlink(`/proc/self/fd/${this.#descriptor}`).catch(() => null));
  }

  /** File system type number from statfs(2); `null` if the system does not report it. */
  fileSystemType(): Promise<bigint | null> {
    return this.#use(async () => {
      const stats = await this.#fileSystem.statfs(`/proc/self/fd/${this.#descriptor}`).catch(() => null);
      return stats?.type ?? null;
    });
  }

  /**
   * Waits for the current system call of each pending operation. Otherwise a descriptor closed
   * under a running write might by then belong to another file. Later calls throw `Aborted`. Safe
   * to repeat. An error of the call counts only if bytes were written that are not durable: network
   * file systems report lost bytes so, and fail here for other reasons too.
   */
  close(): Promise<void> {
    this.#closing ??= this.#closeDescriptors();
    return this.#closing;
  }

  async #closeDescriptors(): Promise<void> {
    if (this.#calls > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    const direct = await this.#directDescriptor;
    const descriptors = typeof direct === 'number' ? [direct, this.#descriptor] : [this.#descriptor];
    const closed = await Promise.allSettled(descriptors.map((each) => this.#fileSystem.close(each)));
    const failed = closed.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected' && this.#isDirty) throw failed.reason;
  }

  /** One system call of a `read` or `write`; `close` waits for it. */
  async #transfer(
    operation: 'read' | 'write',
    buffer: Uint8Array,
    start: number,
    offsetBytes: number,
  ): Promise<number> {
    const rest = Math.min(buffer.byteLength - start, CALL_BYTES_MAX);
    const lengthBytes = this.#directLength(buffer, start, rest, offsetBytes);
    if (lengthBytes > 0) {
      const count = await this.#transferDirect(operation, { buffer, start, lengthBytes, offsetBytes });
      if (count !== null) return count;
    }
    const position = { buffer, start, lengthBytes: rest, offsetBytes };
    return uninterrupted(() => this.#fileSystem[operation](this.#descriptor, position));
  }

  /** Length of the part of a transfer that can bypass the page cache. */
  #directLength(buffer: Uint8Array, start: number, rest: number, offsetBytes: number): number {
    const isAligned =
      (buffer.byteOffset + start) % DIRECT_ALIGNMENT_BYTES === 0 &&
      offsetBytes % DIRECT_ALIGNMENT_BYTES === 0;
    if (!isAligned || this.#refused.has(buffer.buffer)) return 0;
    const lengthBytes = rest - (rest % DIRECT_ALIGNMENT_BYTES);
    return lengthBytes >= DIRECT_BYTES_MIN ? lengthBytes : 0;
  }

  /** Resolves to `null` if this transfer cannot be direct. */
  async #transferDirect(operation: 'read' | 'write', position: IoPosition): Promise<number | null> {
    this.#directDescriptor ??= this.#openDirect();
    const descriptor = await this.#directDescriptor;
    if (descriptor === null) return null;
    try {
      return await uninterrupted(() => this.#fileSystem[operation](descriptor, position));
    } catch (error) {
      if (errnoOf(error) !== 'EINVAL') throw error;
      this.#refused.add(position.buffer.buffer);
      return null;
    }
  }

  /**
   * Opens the same inode again, even if its name has changed. Any failure means that direct access
   * is not available here. The buffered descriptor always works.
   */
  async #openDirect(): Promise<number | null> {
    const flags = (this.#flags & ~(constants.O_CREAT | constants.O_EXCL | constants.O_TRUNC)) | O_DIRECT;
    const path = `/proc/self/fd/${this.#descriptor}`;
    // O_NOFOLLOW would refuse the link in /proc.
    return this.#fileSystem.open(path, flags & ~constants.O_NOFOLLOW).catch(() => null);
  }

  async #use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== null) throw new CheckpointError('Aborted', 'the file is closed');
    this.#calls++;
    try {
      return await work();
    } finally {
      this.#calls--;
      if (this.#calls === 0) this.#whenIdle?.();
    }
  }
}

/** libuv repeats interrupted calls, except `read`. */
async function uninterrupted<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (errnoOf(error) !== 'EINTR') throw error;
    }
  }
}

function noProgress(): Error {
  const message = 'EIO: the file system accepted no byte and reported no error, write';
  return Object.assign(new Error(message), { code: 'EIO', syscall: 'write' });
}
