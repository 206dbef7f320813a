/**
 * An open file that is read and written past the page cache where that works.
 *
 * A page-cache write copies each byte once more and then waits for it again in fdatasync: on the
 * machines measured it took four times as long as O_DIRECT. O_DIRECT in turn wants the buffer's
 * address, the offset and the length aligned, and does not exist everywhere. So a file has a
 * buffered descriptor, and a direct one is opened beside it at the first transfer that could use
 * it. Both name the same inode: the kernel keeps them coherent, and one fdatasync covers both.
 *
 * An unaligned tail goes through the buffered descriptor. The other way, writing a padded block and
 * truncating, would need room behind the caller's bytes and a truncation that no concurrent part
 * may undo; it was not faster.
 */

import { type BigIntStats, constants } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';
import { errnoOf } from './errno.ts';
import { type FileSystem, nodeFileSystem, type Transfer } from './file-system.ts';
import { secondsOf } from './mtime.ts';

/**
 * Address, offset and length of a direct transfer are multiples of this: the page, at least the
 * logical block of any common disk.
 */
export const DIRECT_ALIGNMENT_BYTES = 4096;

/** Below this the copy costs less than the second descriptor. */
const DIRECT_BYTES_MIN = 256 * 1024;

/** Of one system call. Long ones cannot be stopped, and a signal should not wait for a gigabyte. */
const CALL_BYTES_MAX = 64 * 1024 * 1024;

/** Linux only; 0 elsewhere. */
const O_DIRECT: number = constants.O_DIRECT ?? 0;

/** Called before each system call of something long; throws if it is to stop. */
export type Check = () => void;

const proceed: Check = () => undefined;

export interface DirectFileOptions {
  /** False: everything goes through the page cache. Default true. */
  direct?: boolean | undefined;
  /** Of a file that is created; the process's umask is taken off. Default 0o666. */
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
   * Memory that a direct call refused: its address is not aligned, or the file system has no
   * O_DIRECT after all.
   */
  readonly #refused = new WeakSet<ArrayBufferLike>();
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
   * Fills `buffer` from `offsetBytes` on; less only where the file ends. Resolves to the number of
   * bytes. Fastest if `buffer` lies in a `WebAssembly.Memory`, whose address is aligned to pages,
   * and offset and `byteOffset` are aligned too.
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
   * Writes all of `buffer` at `offsetBytes`. Ranges that are written at the same time must not
   * overlap. Not durable before `datasync`.
   */
  write(offsetBytes: number, buffer: Uint8Array, check: Check = proceed): Promise<void> {
    return this.#use(async () => {
      let doneBytes = 0;
      while (doneBytes < buffer.byteLength) {
        check();
        const count = await this.#transfer('write', buffer, doneBytes, offsetBytes + doneBytes);
        if (count === 0) throw noProgress();
        doneBytes += count;
      }
    });
  }

  /**
   * All bytes written so far, the size, and what else is needed to read them are durable. After an
   * error the file is not to be trusted.
   */
  datasync(): Promise<void> {
    return this.#use(() => this.#fileSystem.fdatasync(this.#descriptor));
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#use(() => this.#fileSystem.ftruncate(this.#descriptor, sizeBytes));
  }

  chmod(mode: number): Promise<void> {
    return this.#use(() => this.#fileSystem.fchmod(this.#descriptor, mode));
  }

  /** The time of access stays. */
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
   * Of a directory: `here` leads to it, whatever becomes of its path, until `work` settles. Needs
   * /proc.
   */
  within<T>(work: (here: string) => Promise<T>): Promise<T> {
    return this.#use(() => work(`/proc/self/fd/${this.#descriptor}`));
  }

  /** Where the open file lies, without links; `null` where the system does not tell. */
  place(): Promise<string | null> {
    return this.#use(() => this.#fileSystem.readlink(`/proc/self/fd/${this.#descriptor}`).catch(() => null));
  }

  /**
   * The number of the kind of file system that it lies on (statfs(2)); `null` where the system does
   * not tell.
   */
  fileSystemType(): Promise<bigint | null> {
    return this.#use(async () => {
      const stats = await this.#fileSystem.statfs(`/proc/self/fd/${this.#descriptor}`).catch(() => null);
      return stats?.type ?? null;
    });
  }

  /**
   * Waits for calls that have begun, up to their last system call: a descriptor closed under a
   * running write may by then belong to another file. Later calls are `Aborted`. Safe to repeat.
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
    try {
      if (typeof direct === 'number') await this.#fileSystem.close(direct);
    } finally {
      await this.#fileSystem.close(this.#descriptor);
    }
  }

  /** One system call of a `read` or `write`, which keeps the file open. */
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
    const transfer = { buffer, start, lengthBytes: rest, offsetBytes };
    return uninterrupted(() => this.#fileSystem[operation](this.#descriptor, transfer));
  }

  /** How much of a transfer may go past the page cache. */
  #directLength(buffer: Uint8Array, start: number, rest: number, offsetBytes: number): number {
    const isAligned =
      (buffer.byteOffset + start) % DIRECT_ALIGNMENT_BYTES === 0 &&
      offsetBytes % DIRECT_ALIGNMENT_BYTES === 0;
    if (!isAligned || this.#refused.has(buffer.buffer)) return 0;
    const lengthBytes = rest - (rest % DIRECT_ALIGNMENT_BYTES);
    return lengthBytes >= DIRECT_BYTES_MIN ? lengthBytes : 0;
  }

  /** `null`: this transfer cannot be direct. */
  async #transferDirect(operation: 'read' | 'write', transfer: Transfer): Promise<number | null> {
    this.#directDescriptor ??= this.#openDirect();
    const descriptor = await this.#directDescriptor;
    if (descriptor === null) return null;
    try {
      return await uninterrupted(() => this.#fileSystem[operation](descriptor, transfer));
    } catch (error) {
      if (errnoOf(error) !== 'EINVAL') throw error;
      this.#refused.add(transfer.buffer.buffer);
      return null;
    }
  }

  /**
   * The same inode again, whatever has become of its name. Any failure means: not here. The
   * buffered descriptor works either way.
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

/** libuv repeats interrupted calls, but not `read`. */
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
