import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { schemeOf } from './uri.ts';

describe('schemeOf', () => {
  it.each([
    ['file:///data/run', 'file'],
    ['memory://a', 'memory'],
    ['s3://bucket//double', 's3'],
  ])('%s is of scheme %s', (uri, scheme) => {
    expect(schemeOf(uri)).toBe(scheme);
  });

  it('a path is InvalidConfig and names the URI of the same place', () => {
    expect(() => schemeOf('/data/my run')).toThrow(
      'this takes a URI, and was given a path; write file:///data/my%20run',
    );
    expect(() => schemeOf('./runs/gpt')).toThrow(`write file://${process.cwd()}/runs/gpt`);
  });

  it('a scheme with one slash is told so, and nothing of it is repeated', () => {
    const told = 'the scheme is followed by one slash instead of two; write s3://bucket/prefix';
    expect(() => schemeOf('s3:/canary@bucket/x')).toThrow(expect.objectContaining({ message: told }));
  });

  it.each([
    'runs/canary',
    'canary',
    'u:canary@host/x',
    's3:u:canary@bucket',
    'AccountKey=canary;x',
    '//u:canary@host/x',
    '//canary@host/x',
    '///u:canary@host/x',
    './/u:canary@host/x',
    '/u:canary@host/x',
    './u:canary@host/x',
    '/u:can/canary@host/x',
  ])('%s is not repeated: it may be anything', (text) => {
    expect(() => schemeOf(text)).toThrow(`a directory here is file://${process.cwd()}/NAME`);
    expect(() => schemeOf(text)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('canary') }),
    );
  });

  it('file: without two slashes is answered with the whole form', () => {
    expect(() => schemeOf('file:/data/run')).toThrow('write file:///abs/dir');
  });

  it('an empty one says so', () => {
    try {
      schemeOf(' ');
      expect.unreachable();
    } catch (error) {
      expect(isCheckpointError(error, 'InvalidConfig')).toBe(true);
    }
  });
});
