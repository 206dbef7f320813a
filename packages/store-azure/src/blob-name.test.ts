import { describe, expect, it } from 'vitest';
import { blobName, keyOf } from './blob-name.ts';

const STORE = { store: 'az://acct/runs', root: 'gpt/' };

describe('names of blobs', () => {
  it('are the root and the key; a backslash, which Azure does not keep, is written in another way', () => {
    expect(blobName(STORE, 'a/b c')).toBe('gpt/a/b c');
    expect(blobName(STORE, 'a\\b\\c')).not.toContain('\\');
  });

  it('tell the key, and keep the order of keys', () => {
    const keys = ['a[', 'a[[', 'a[b', 'a[\uffee', 'a[\u{10fff0}', 'a\\', 'a\\b', 'a]', 'a]b', 'ab'];
    const names = keys.map((key) => blobName({ ...STORE, root: '' }, key));
    expect(names.map(keyOf)).toEqual(keys);
    expect([...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))).toEqual(names);
  });

  it.each([
    ['a.', 'ends in "."'],
    ['a./b', 'ends in "."'],
    ['a[\u{10fffd}', 'stands for a backslash'],
    ['k'.repeat(1021), 'has 1025 bytes together with the prefix'],
  ])('%s is InvalidArgument', (key, words) => {
    expect(() => blobName(STORE, key)).toThrow(
      expect.objectContaining({ code: 'InvalidArgument', message: expect.stringContaining(words) }),
    );
  });
});
