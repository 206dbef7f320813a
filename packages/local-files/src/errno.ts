import {
  CheckpointError,
  type ErrorCode,
  type ErrorContext,
  isCheckpointError,
} from '@holdfast/core/contract';

/**
 * Maps an errno to the error code for the caller. Sources, targets and the local store share this
 * table. Any other errno is `Unexpected`. `Unavailable` marks a failure that may pass: the fault
 * lies with the device, the network file system or this process, not with the call.
 */
export const ERRNO_MEANINGS: Readonly<Record<string, readonly [code: ErrorCode, meaning: string]>> = {
  ENOENT: ['NotFound', 'no such file or directory'],
  ENOTDIR: ['NotFound', 'a part of the path is not a directory'],
  EEXIST: ['AlreadyExists', 'it already exists'],
  EISDIR: ['InvalidArgument', 'it is a directory'],
  ELOOP: ['InvalidArgument', 'too many symbolic links, or a symbolic link where none is followed'],
  ENAMETOOLONG: ['InvalidArgument', 'a name is longer than this file system allows'],
  EACCES: ['Denied', 'permission denied'],
  EPERM: ['Denied', 'operation not permitted'],
  EROFS: ['ReadOnly', 'the file system is read-only'],
  ENOSPC: ['StorageFull', 'no space left on the device'],
  EDQUOT: ['StorageFull', 'the disk quota is used up'],
  EFBIG: [
    'Unsupported',
    'the file is larger than this file system or the limit of this process (ulimit -f) allows',
  ],
  EXDEV: [
    'Unsupported',
    'it lies on another file system than its directory; everything below one root must be on one file system',
  ],
  EMLINK: ['Unsupported', 'this file system allows no more links'],
  ENOSYS: ['Unsupported', 'this file system does not support the operation'],
  ENOTSUP: ['Unsupported', 'this file system does not support the operation'],
  EOPNOTSUPP: ['Unsupported', 'this file system does not support the operation'],
  EMFILE: ['Unavailable', 'this process has too many open files (ulimit -n)'],
  ENFILE: ['Unavailable', 'this machine has too many open files'],
  ENOMEM: ['Unavailable', 'not enough memory'],
  EAGAIN: ['Unavailable', 'the file system is busy'],
  EBUSY: ['Unavailable', 'it is in use, or a mount point'],
  EINTR: ['Unavailable', 'the call was interrupted'],
  EIO: ['Unavailable', 'the device reported an I/O error; look at the system log'],
  ENODEV: ['Unavailable', 'the device is gone'],
  ENXIO: ['Unavailable', 'the device is gone'],
  EREMOTEIO: ['Unavailable', 'the remote file system reported an I/O error'],
  ESTALE: ['Unavailable', 'the file handle is stale: the network file system was exported anew'],
  ETIMEDOUT: ['Unavailable', 'the file system did not answer in time'],
  EHOSTDOWN: ['Unavailable', 'the server of the file system cannot be reached'],
  EHOSTUNREACH: ['Unavailable', 'the server of the file system cannot be reached'],
  ENOTCONN: ['Unavailable', 'the server or the daemon of the file system is gone'],
};

/**
 * Numbers of Linux for which Node has no name: their `code` is "Unknown system error -122". Source:
 * `errno.h` of x86-64 and arm64.
 */
const NUMBERS: Readonly<Record<number, string>> = { 116: 'ESTALE', 121: 'EREMOTEIO', 122: 'EDQUOT' };

/** Errno name of a failed system call; `undefined` for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error && 'code' in error && 'syscall' in error)) return undefined;
  const named = 'errno' in error && process.platform === 'linux' ? NUMBERS[-Number(error.errno)] : undefined;
  return named ?? (typeof error.code === 'string' ? error.code : undefined);
}

/**
 * Wraps a failed call in a `CheckpointError` that says what was tried ("write /ckpt/a"). A
 * `CheckpointError` is returned unchanged. `context` should name the path.
 */
export function fileError(error: unknown, action: string, context: ErrorContext): CheckpointError {
  if (isCheckpointError(error)) return error;
  const errno = errnoOf(error);
  const known =
    errno !== undefined && Object.hasOwn(ERRNO_MEANINGS, errno) ? ERRNO_MEANINGS[errno] : undefined;
  if (known === undefined) {
    const detail = error instanceof Error ? error.message : String(error);
    return new CheckpointError('Unexpected', `cannot ${action}: ${detail}`, { context, cause: error });
  }
  const [code, meaning] = known;
  return new CheckpointError(code, `cannot ${action}: ${meaning} (${errno})`, { context, cause: error });
}
