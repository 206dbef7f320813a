import { describe, expect, it } from 'vitest';
import { blobName, keyOf, namePrefix } from './blob-name.ts';

const STORE = { store: 'az://acct/runs', root: '' };

/** In the order of their bytes. */
const KEYS = [
  'a',
  'a-b',
  'a.',
  'a.!',
  'a.-b',
  'a..',
  'a../b',
  'a.b',
  'a/b',
  'a0',
  'a[',
  'a[[',
  'a[b',
  'a[\uffee',
  'a[\u{10fff0}',
  'a\\',
  'a\\b',
  'a\\b.',
  'a\\b./c',
  'a]',
  'ab',
];

const bytes = (text: string) => Buffer.from(text);

describe('names of blobs', () => {
  it('are the root and the key', () => {
    expect(blobName({ ...STORE, root: 'gpt/' }, 'a/b c.bin')).toBe('gpt/a/b c.bin');
  });

  it('have no backslash, and no segment that ends in a dot', () => {
    for (const key of KEYS) expect(blobName(STORE, key)).not.toMatch(/\\|\.(\/|$)/);
  });

  it('tell the key, and keep the order of keys', () => {
    const names = KEYS.map((key) => blobName(STORE, key));
    expect(names.map(keyOf)).toEqual(KEYS);
    expect([...KEYS].sort((a, b) => Buffer.compare(bytes(a), bytes(b)))).toEqual(KEYS);
    expect([...names].sort((a, b) => Buffer.compare(bytes(a), bytes(b)))).toEqual(names);
  });

  it('begin with what their keys begin with', () => {
    for (const key of KEYS)
      for (let length = 0; length <= key.length; length++) {
        const prefix = key.slice(0, length);
        if (!prefix.isWellFormed()) continue;
        expect(blobName(STORE, key).startsWith(namePrefix(prefix))).toBe(true);
      }
  });

  it('that are of no key are told', () => {
    expect(keyOf('a\u{10fffd}')).toBeNull();
    expect(keyOf('a.\u{10fffd}')).toBeNull();
  });

  it.each([
    ['a\u{10fffd}', 'reserved as an escape character'],
    ['k'.repeat(1025), 'has 1025 bytes with the prefix'],
  ])('%s is InvalidArgument', (key, words) => {
    expect(() => blobName(STORE, key)).toThrow(
      expect.objectContaining({ code: 'InvalidArgument', message: expect.stringContaining(words) }),
    );
  });
});
