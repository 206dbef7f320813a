import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { redactUri, schemeOf } from './uri.ts';

describe('schemeOf', () => {
  it.each([
    ['file:///data/run', 'file'],
    ['memory://a', 'memory'],
    ['s3://bucket//double', 's3'],
  ])('%s is of scheme %s', (uri, scheme) => {
    expect(schemeOf(uri)).toBe(scheme);
  });

  it('a plain path is InvalidConfig and names the URI of the same place', () => {
    expect(() => schemeOf('/data/my run')).toThrow(
      '"/data/my run" is a plain path, not a URI; write file:///data/my%20run',
    );
  });

  it('a relative path is taken from the working directory', () => {
    expect(() => schemeOf('runs/gpt')).toThrow(`write file://${process.cwd()}/runs/gpt`);
  });

  it('file: without two slashes is answered with the whole form', () => {
    expect(() => schemeOf('file:/data/run')).toThrow('write file:///data/run');
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

describe('redactUri', () => {
  it('hides user names and passwords', () => {
    expect(redactUri('s3://AKIA:hunter2@bucket/p')).toBe('s3://[redacted]@bucket/p');
    expect(redactUri('s3://bucket/p?endpoint=http://me:hunter2@host')).toBe(
      's3://bucket/p?endpoint=http://[redacted]@host',
    );
  });

  it('hides query values that look like secrets, and only those', () => {
    const uri = 'az://a/c?region=x&sig=abc&X-Amz-Signature=def&sessionToken=ghi&endpoint=e';
    expect(redactUri(uri)).toBe(
      'az://a/c?region=x&sig=[redacted]&X-Amz-Signature=[redacted]&sessionToken=[redacted]&endpoint=e',
    );
  });

  it('leaves an @ inside a path alone', () => {
    expect(redactUri('file:///data/a@b')).toBe('file:///data/a@b');
  });
});
