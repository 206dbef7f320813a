import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inspectTarget, localFiles, openTargetFile } from './index.ts';
import { isAtOrBelow, localPath } from './local-path.ts';

const URIS = ['s3://bucket/dir', 's3:/bucket/dir', 'GS://b/d', 'file:///tmp/x', 'az://user:hunter2@a/c'];

describe('localPath', () => {
  it.each(['dir', './s3:/dir', '/abs/a:/b', 'a:b', 'c:/dir', '..'])('takes %s', (path) => {
    expect(localPath(path)).toBe(resolve(path));
  });

  it.each([...URIS, '', '  ', 'a\0b'])('refuses %j, and does not repeat it', (path) => {
    expect(() => localPath(path)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
    expect(() => localPath(path)).not.toThrow(/hunter2/);
  });
});

it.each([
  ['/a', '/a', true],
  ['/a/b', '/a', true],
  ['/ab', '/a', false],
  ['/a', '/a/b', false],
  ['/a', '/', true],
  ['/', '/', true],
])('%s at or below %s: %s', (path, directory, expected) => {
  expect(isAtOrBelow(path, directory)).toBe(expected);
});

describe('every call that is given a path refuses a URI, and makes nothing', () => {
  const work = mkdtempSync(join(tmpdir(), 'holdfast-path-'));
  const before = process.cwd();
  beforeAll(() => process.chdir(work));
  afterAll(() => {
    process.chdir(before);
    rmSync(work, { recursive: true });
  });

  it.each(URIS)('%s', async (uri) => {
    const calls = [
      () => localFiles.scan(uri),
      () => localFiles.openSource(uri),
      () => localFiles.openTarget(uri),
      () => inspectTarget(uri),
      () => openTargetFile(uri),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(readdirSync('.')).toEqual([]);
  });
});
