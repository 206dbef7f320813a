import { describe, expect, test } from 'vitest';
import { parseShardFile, parseVersionFolder, shardFile, versionFolder } from './names.ts';

describe('version directories', () => {
  test.each([
    ['version-0', 0n],
    ['version-100', 100n],
    ['version_100', 100n],
    ['version-007', 7n],
    ['version-9223372036854775807', 2n ** 63n - 1n],
  ])('%s is version %s', (name, version) => {
    expect(parseVersionFolder(name)).toBe(version);
  });

  test.each([
    'version-',
    'version--1',
    'version-1.5',
    'version-1_000',
    'version- 7',
    'version-7 ',
    'version-９',
    'version-9223372036854775808',
    `version-${'9'.repeat(200)}`,
    'Version-7',
    'xversion-7',
    'version-7.tmp',
    '7',
    '',
  ])('%j is not one', (name) => {
    expect(parseVersionFolder(name)).toBeNull();
  });

  test('written with a hyphen, and read back', () => {
    expect(versionFolder(100n)).toBe('version-100');
    expect(parseVersionFolder(versionFolder(2n ** 63n - 1n))).toBe(2n ** 63n - 1n);
  });

  test.each([-1n, 2n ** 63n])('%s cannot be written: InvalidArgument', (version) => {
    expect(() => versionFolder(version)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
  });
});

describe('shard files', () => {
  test.each([
    ['variables-0-of-1.ckpt', 0, 1],
    ['variables-1-of-2.chkpt', 1, 2],
    ['variables-01-of-02.ckpt', 1, 2],
    ['variables-5-of-2.ckpt', 5, 2],
  ])('%s is shard %i of %i', (name, index, count) => {
    expect(parseShardFile(name)).toEqual({ name, index, count });
  });

  test.each([
    'variables-0-of-1.ckpt.tmp',
    'variables-0-of-1.ckpt~',
    '.variables-0-of-1.ckpt',
    'variables-a-of-b.ckpt',
    'variables--1-of-1.ckpt',
    'variables-0-of-.ckpt',
    'variables-0-of-99999999999999999999.ckpt',
    'variables-0-of-1',
    'model.ckpt',
    'checkpoint',
  ])('%s is not one', (name) => {
    expect(parseShardFile(name)).toBeNull();
  });

  test('written as ElasticDL writes them, with the extension that is asked for', () => {
    expect(shardFile(0, 1)).toBe('variables-0-of-1.ckpt');
    expect(shardFile(3, 12, 'chkpt')).toBe('variables-3-of-12.chkpt');
  });
});
