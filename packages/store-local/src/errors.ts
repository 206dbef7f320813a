import { CheckpointError, type ErrorCode, isCheckpointError } from '@holdfast/core/contract';
import { errnoOf, fileError, SyncFailedBefore } from '@holdfast/local-files';

/** What a call was about, for its message. */
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
 * A failed call as a `CheckpointError`; the table is that of `@holdfast/local-files`, and only the
 * names are the store's.
 */
export function storeError(error: unknown, action: string, subject: StoreSubject): CheckpointError {
  if (isCheckpointError(error)) return error;
  const errno = errnoOf(error);
  if (subject.key !== undefined && (errno === 'ENOENT' || errno === 'ENOTDIR')) {
    return objectError('NotFound', subject, 'does not exist', error);
  }
  const what = subject.key === undefined ? subject.store : `object ${subject.key} in ${subject.store}`;
  return fileError(error, `${action} ${what}`, contextOf(subject));
}

/**
 * The same for a write. Here a missing name is that of a directory, which vanished, and a name that
 * is taken is that of a file where a directory should be; that there is an object already is said
 * only where that is certain.
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
 * A sync of a name or its bytes failed: the object may be seen, and may be lost with the power.
 * That is never `permanent`, which would promise that nothing happened. After a first failure
 * repeating is of no use either: `exhausted`. `permanent` then where nothing has its name yet.
 */
export function notDurable(
  error: unknown,
  subject: StoreSubject,
  statusIfBefore: 'exhausted' | 'permanent',
): CheckpointError {
  const errno = errnoOf(error) ?? 'no errno';
  const { store, key } = subject;
  if (!(error instanceof SyncFailedBefore)) {
    const what = `has its name, but the name could not be made durable (${errno})`;
    return objectError('Unavailable', subject, what, error);
  }
  const message =
    `object ${key} in ${store} may be lost with the power: a sync of its file or directory failed (${errno}), ` +
    'and this process trusts neither any more; look at the disk, then start the process again';
  return new CheckpointError('Unavailable', message, {
    context: contextOf(subject),
    cause: error,
    status: statusIfBefore,
  });
}

function contextOf({ store, key }: StoreSubject): { store: string; key?: string } {
  return key === undefined ? { store } : { store, key };
}
