import { pathToFileURL } from 'node:url';
import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';
import { errnoOf, fileError, SyncFailedBefore } from '@holdfast/local-files';

/** Subject of a call, for its message. */
export interface StoreSubject {
  readonly store: string;
  readonly key?: string | undefined;
}

export function objectError(
  code: ErrorCode,
  subject: StoreSubject,
  what: string,
  cause?: unknown,
): CheckpointError {
  const { store, key } = subject;
  const name = key === undefined ? store : `object ${key} in ${store}`;
  return new CheckpointError(code, `${name} ${what}`, { context: contextOf(subject), cause });
}

/**
 * Wraps a failed call in a `CheckpointError`. The codes come from the table of
 * `@holdfast/local-files`. The message names the store's objects.
 */
export function storeError(error: unknown, action: string, subject: StoreSubject): CheckpointError {
  if (isCheckpointError(error)) return error;
  const errno = errnoOf(error);
  if (subject.key !== undefined && (errno === 'ENOENT' || errno === 'ENOTDIR')) {
    return objectError('NotFound', subject, 'does not exist', error);
  }
  return fileError(error, `${action} ${whatFailed(error, subject)}`, contextOf(subject));
}

/** A call without a key may have failed at a directory below the store's. */
function whatFailed(error: unknown, { store, key }: StoreSubject): string {
  if (key !== undefined) return `object ${key} in ${store}`;
  const path = error instanceof Error && 'path' in error ? error.path : undefined;
  const isBelow = typeof path === 'string' && pathToFileURL(path).href !== store;
  return isBelow ? `${path} in ${store}` : store;
}

/**
 * Like `storeError`, for a write. Here a missing name means that a directory vanished, and a taken
 * name means that a file has the place of a directory. `AlreadyExists` is reported only where it is
 * certain.
 */
export function writeError(error: unknown, action: string, subject: StoreSubject): CheckpointError {
  const errno = errnoOf(error);
  if (errno === 'ENOENT') {
    return objectError(
      'Unavailable',
      subject,
      'could not be written: its directory or temporary file vanished',
      error,
    );
  }
  if (errno === 'ENOTDIR' || errno === 'EEXIST') {
    return objectError('InvalidArgument', subject, 'cannot be written: a part of its path is a file', error);
  }
  return storeError(error, action, subject);
}

/**
 * Error for a failed sync of a name or its bytes: the object may be visible, and may be lost with
 * the power. It is never `permanent` once a name exists, because that would promise that nothing
 * happened. After a first failure a retry cannot help either: `exhausted`. It is `permanent` while
 * nothing has its name yet.
 */
export function notDurable(
  error: unknown,
  subject: StoreSubject,
  statusIfBefore: 'exhausted' | 'permanent',
): CheckpointError {
  const errno = errnoOf(error) ?? 'no errno';
  const { store, key } = subject;
  if (!(error instanceof SyncFailedBefore)) {
    const what = `was created, but its name could not be made durable (${errno})`;
    return objectError('Unavailable', subject, what, error);
  }
  const message =
    `object ${key} in ${store} may be lost in a power failure: a sync of its file or directory failed (${errno}), ` +
    'and this process can no longer rely on either; check the disk, then start the process again';
  return new CheckpointError('Unavailable', message, {
    context: contextOf(subject),
    cause: error,
    status: statusIfBefore,
  });
}

function contextOf({ store, key }: StoreSubject): { store: string; key?: string } {
  return key === undefined ? { store } : { store, key };
}
