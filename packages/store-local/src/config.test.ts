import { describe, expect, it } from 'vitest';
import { type LocalOptions, parseLocalConfig } from './config.ts';

const refused = (message: string) =>
  expect.objectContaining({ code: 'InvalidConfig', message: expect.stringContaining(message) });

describe('parseLocalConfig of a URI', () => {
  it.each([
    ['file:///abs/dir', '/abs/dir'],
    ['file:///abs/dir/', '/abs/dir/'],
    ['file:///abs//dir', '/abs//dir'],
    ['file:////abs', '//abs'],
    ['file:///a/../b', '/a/../b'],
    ['FILE:///abs', '/abs'],
    ['file:///with%20space/%25/%23/%3F', '/with space/%/#/?'],
    ['file:///umlaut-%C3%A4/ü', '/umlaut-ä/ü'],
    ['file:///plus+stays', '/plus+stays'],
    ['file:///abs?', null],
  ])('%s is the directory %s', (uri, directory) => {
    if (directory === null) expect(() => parseLocalConfig(uri)).toThrow(refused('unknown setting'));
    else expect(parseLocalConfig(uri)).toEqual({ uri, directory, durability: 'fsync', direct: 'auto' });
  });

  it('takes durability and direct, in any order', () => {
    expect(parseLocalConfig('file:///d?durability=none')).toMatchObject({
      durability: 'none',
      direct: 'auto',
    });
    expect(parseLocalConfig('file:///d?direct=off&durability=fsync')).toMatchObject({
      durability: 'fsync',
      direct: 'off',
    });
    expect(parseLocalConfig('file:///d?direct=%6Fff')).toMatchObject({ direct: 'off' });
  });

  it.each([
    ['file://relative/dir', 'a host; write an absolute path'],
    ['file://localhost/abs', 'has a host'],
    ['file:relative', 'is not a file URI'],
    ['file:/abs', 'is not a file URI'],
    ['/abs', 'is not a file URI'],
    ['relative', 'is not a file URI'],
    ['s3://bucket/x', 'is not a file URI'],
    ['', 'is not a file URI'],
    ['file://', 'names no directory'],
    ['file:///', 'names no directory'],
    ['file:////', 'names no directory'],
    ['file:///d?sync=off', 'unknown setting'],
    ['file:///d?constructor=1', 'unknown setting'],
    ['file:///d?direct=on', 'direct= with a value that is not accepted; direct is one of auto, off'],
    [
      'file:///d?durability',
      'durability= with a value that is not accepted; durability is one of fsync, none',
    ],
    ['file:///d?direct=off&direct=auto', 'query key "direct" twice'],
    ['file:///d?direct=off=auto', 'direct= with a value that is not accepted'],
    ['file:///d#part', 'fragment'],
    ['file:///d%zz', 'write "%" as %25'],
    ['file:///d%ff', 'write "%" as %25'],
    ['file:///d?direct=%', 'write "%" as %25'],
    ['file:///d%00', 'NUL'],
    ['file:///d\nfile:///e?x=1', 'unknown setting'],
  ])('%j is InvalidConfig that says why and what is accepted', (uri, message) => {
    expect(() => parseLocalConfig(uri)).toThrow(refused(message));
    expect(() => parseLocalConfig(uri)).toThrow(refused('file:///absolute/directory'));
    expect(() => parseLocalConfig(uri)).toThrow(refused('durability=fsync|none and direct=auto|off'));
  });
});

it.each([
  'file://u:canary@host/d',
  'file:u:canary',
  'file:///d?canary',
  'file:///d?direct=canary',
  'file:///d#canary',
])('%s: nothing of it is repeated', (uri) => {
  expect(() => parseLocalConfig(uri)).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('canary') }),
  );
});

describe('parseLocalConfig of options', () => {
  it('completes them', () => {
    expect(parseLocalConfig({ directory: '/a b' })).toEqual({
      uri: 'file:///a%20b',
      directory: '/a b',
      durability: 'fsync',
      direct: 'auto',
    });
    expect(parseLocalConfig({ directory: '/a', durability: 'none', direct: 'off' })).toMatchObject({
      durability: 'none',
      direct: 'off',
    });
  });

  it.each([
    [{ directory: 'relative' }, 'not an absolute path'],
    [{ directory: '' }, 'not an absolute path'],
    [{ directory: '/a\0b' }, 'NUL'],
    [
      { directory: '/a', durability: 'maybe' } as unknown as LocalOptions,
      'durability= with a value that is not accepted; durability is one of fsync, none',
    ],
  ])('%j is InvalidConfig', (options, message) => {
    expect(() => parseLocalConfig(options)).toThrow(refused(message));
  });
});
