import { CheckpointError, ERROR_CODES, isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { ERRNO_MEANINGS, errnoOf, fileError } from './errno.ts';

const systemError = (code: string) =>
  Object.assign(new Error(`${code}: made up`), { code, syscall: 'write' });

it.runIf(process.platform === 'linux')('Node has no name for some numbers of Linux', () => {
  for (const [errno, code] of [
    [-122, 'StorageFull'],
    [-116, 'Unavailable'],
    [-121, 'Unavailable'],
  ] as const) {
    const unnamed = Object.assign(systemError(`Unknown system error ${errno}`), { errno });
    expect(fileError(unnamed, 'write /a', {}).code).toBe(code);
  }
});

describe('fileError', () => {
  // Repeats the expected result of each errno: a change of the table changes what callers do.
  it.each([
    ['ENOENT', 'NotFound', 'permanent'],
    ['ENOTDIR', 'NotFound', 'permanent'],
    ['EEXIST', 'AlreadyExists', 'permanent'],
    ['EISDIR', 'InvalidArgument', 'permanent'],
    ['ELOOP', 'InvalidArgument', 'permanent'],
    ['ENAMETOOLONG', 'InvalidArgument', 'permanent'],
    ['EACCES', 'Denied', 'permanent'],
    ['EPERM', 'Denied', 'permanent'],
    ['EROFS', 'ReadOnly', 'permanent'],
    ['ENOSPC', 'StorageFull', 'permanent'],
    ['EDQUOT', 'StorageFull', 'permanent'],
    ['EFBIG', 'Unsupported', 'permanent'],
    ['EXDEV', 'Unsupported', 'permanent'],
    ['EMLINK', 'Unsupported', 'permanent'],
    ['ENOSYS', 'Unsupported', 'permanent'],
    ['ENOTSUP', 'Unsupported', 'permanent'],
    ['EOPNOTSUPP', 'Unsupported', 'permanent'],
    ['EMFILE', 'Unavailable', 'temporary'],
    ['ENFILE', 'Unavailable', 'temporary'],
    ['ENOMEM', 'Unavailable', 'temporary'],
    ['EAGAIN', 'Unavailable', 'temporary'],
    ['EBUSY', 'Unavailable', 'temporary'],
    ['EINTR', 'Unavailable', 'temporary'],
    ['EIO', 'Unavailable', 'temporary'],
    ['ENODEV', 'Unavailable', 'temporary'],
    ['ENXIO', 'Unavailable', 'temporary'],
    ['EREMOTEIO', 'Unavailable', 'temporary'],
    ['ESTALE', 'Unavailable', 'temporary'],
    ['ETIMEDOUT', 'Unavailable', 'temporary'],
    ['EHOSTDOWN', 'Unavailable', 'temporary'],
    ['EHOSTUNREACH', 'Unavailable', 'temporary'],
    ['ENOTCONN', 'Unavailable', 'temporary'],
  ])('%s is %s, %s', (errno, code, status) => {
    const cause = systemError(errno);
    const error = fileError(cause, 'write /a/b', { path: '/a/b' });
    expect(error).toMatchObject({ code, status, cause, context: { path: '/a/b' } });
    expect(error.message).toMatch(new RegExp(`^cannot write /a/b: .+ \\(${errno}\\)$`));
  });

  it('every row of the table is in the test above', () => {
    expect(Object.keys(ERRNO_MEANINGS)).toHaveLength(32);
    for (const [code] of Object.values(ERRNO_MEANINGS)) expect(ERROR_CODES).toHaveProperty(code);
  });

  it.each(['EWHATEVER', 'constructor'])(
    'an errno that is not known (%s) is Unexpected, with its message',
    (errno) => {
      const error = fileError(systemError(errno), 'read /a', {});
      expect(error.code).toBe('Unexpected');
      expect(error.message).toContain(`${errno}: made up`);
    },
  );

  it('an error that is no failed call is Unexpected, even if it has a code', () => {
    const error = Object.assign(new TypeError('offset is out of range'), { code: 'ENOENT' });
    expect(fileError(error, 'read /a', {}).code).toBe('Unexpected');
    expect(errnoOf(error)).toBeUndefined();
    expect(fileError('text', 'read /a', {}).message).toContain('text');
  });

  it('a CheckpointError stays what it is', () => {
    const error = new CheckpointError('Aborted', 'stopped');
    expect(fileError(error, 'read /a', {})).toBe(error);
    expect(isCheckpointError(error, 'Aborted')).toBe(true);
  });
});
