import { CheckpointError } from '@holdfast/core/contract';
import { SyncFailedBefore } from '@holdfast/local-files';
import { describe, expect, it } from 'vitest';
import { notDurable, objectError, storeError, writeError } from './errors.ts';

const systemError = (code: string) => Object.assign(new Error(`${code}: made up`), { code, syscall: 'test' });
const SUBJECT = { store: 'file:///s', key: 'a/b' };

describe('storeError', () => {
  it.each([
    ['ENOENT', 'NotFound', 'object a/b in file:///s does not exist'],
    ['ENOTDIR', 'NotFound', 'object a/b in file:///s does not exist'],
    ['EACCES', 'Denied', 'cannot read object a/b in file:///s: permission denied (EACCES)'],
    ['EIO', 'Unavailable', 'cannot read object a/b in file:///s: the device reported'],
    ['EWHATEVER', 'Unexpected', 'cannot read object a/b in file:///s: EWHATEVER: made up'],
  ])('%s while an object is read is %s', (errno, code, message) => {
    const error = storeError(systemError(errno), 'read', SUBJECT);
    expect(error).toMatchObject({ code, context: { store: 'file:///s', key: 'a/b' } });
    expect(error.message).toContain(message);
  });

  it('without a key it names the store', () => {
    const error = storeError(systemError('ENOENT'), 'list', { store: 'file:///s' });
    expect(error).toMatchObject({ code: 'NotFound', context: { store: 'file:///s' } });
    expect(error.message).toContain('cannot list file:///s');
    expect(error.context).not.toHaveProperty('key');
  });

  it.each([
    ['/s', 'cannot list file:///s: permission denied'],
    ['/s/a b', 'cannot list /s/a b in file:///s: permission denied'],
  ])('without a key it names the directory at which the call failed, %s', (path, message) => {
    const error = Object.assign(systemError('EACCES'), { path });
    expect(storeError(error, 'list', { store: 'file:///s' }).message).toContain(message);
  });

  it('a CheckpointError stays what it is', () => {
    const error = new CheckpointError('Corrupt', 'bad');
    expect([storeError(error, 'read', SUBJECT), writeError(error, 'create', SUBJECT)]).toEqual([
      error,
      error,
    ]);
  });
});

describe('writeError', () => {
  it.each([
    ['ENOENT', 'Unavailable', 'temporary'],
    ['ENOTDIR', 'InvalidArgument', 'permanent'],
    // Never AlreadyExists, which is only reported for an object that was seen.
    ['EEXIST', 'InvalidArgument', 'permanent'],
    ['ENOSPC', 'StorageFull', 'permanent'],
    ['EROFS', 'ReadOnly', 'permanent'],
    ['EXDEV', 'Unsupported', 'permanent'],
  ])('%s while an object is written is %s, %s', (errno, code, status) => {
    expect(writeError(systemError(errno), 'create', SUBJECT)).toMatchObject({ code, status });
  });
});

describe('notDurable', () => {
  it.each(['EIO', 'ENOSPC', 'EROFS'])(
    '%s after the object has its name is temporary, never permanent',
    (errno) => {
      const cause = systemError(errno);
      const error = notDurable(cause, SUBJECT, 'permanent');
      expect(error).toMatchObject({ code: 'Unavailable', status: 'temporary', cause });
      expect(error.message).toContain(errno);
    },
  );

  it.each(['exhausted', 'permanent'] as const)('after an earlier failure it is %s', (status) => {
    const cause = new SyncFailedBefore('/s/a', systemError('EIO'));
    const error = notDurable(cause, SUBJECT, status);
    expect(error).toMatchObject({ code: 'Unavailable', status, cause, context: { key: 'a/b' } });
    expect(error.message).toMatch(/\(EIO\).*start the process again/);
  });
});

describe('objectError', () => {
  it('names the object, or the store', () => {
    expect(objectError('Corrupt', SUBJECT, 'is bad').message).toBe('object a/b in file:///s is bad');
    expect(objectError('Aborted', { store: 'file:///s' }, 'was closed').message).toBe('file:///s was closed');
  });
});
