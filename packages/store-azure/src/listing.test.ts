import { compareUtf8 } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { startOf } from './listing.ts';

describe('startOf', () => {
  it.each([
    ['', 'catalog/000123', 'catalog/000123'],
    ['catalog/', 'catalog/000123', 'catalog/000123'],
    ['catalog/', 'catalog/000123-ab', 'catalog/000123'],
    ['a-b/', 'a-b/c.d', 'a-b/c'],
    ['', 'ä/1', 'ä/1'],
    ['', 'a\u{10000}', 'a'],
    ['p/', 'p/', undefined],
    ['p/', 'p/-x', undefined],
    ['p/', 'a', undefined],
    ['p/', 'q', null],
    ['p/', 'p0', null],
  ])('with the prefix %j after %j a listing begins at %j', (prefix, startAfter, expected) => {
    expect(startOf(prefix, startAfter)).toBe(expected);
  });

  it('leaves nothing out, whether a store orders by bytes, by UTF-16 or by directories', () => {
    const names = [
      'a',
      'a-b',
      'a/b',
      'a/b-c',
      'a/b/c',
      'a0',
      'a!',
      'a\u{10000}',
      'a\uffee',
      'ab',
      '~',
      'é',
      'b',
    ];
    const orders = [
      compareUtf8,
      (a: string, b: string) => (a < b ? -1 : Number(a > b)),
      (a: string, b: string) => compareUtf8(a.replaceAll('/', '\0'), b.replaceAll('/', '\0')),
    ];
    for (const startAfter of names)
      for (const compare of orders) {
        const start = startOf('', startAfter) ?? '';
        const skipped = names.filter((name) => compare(name, start) < 0);
        expect(skipped.filter((name) => compareUtf8(name, startAfter) > 0)).toEqual([]);
      }
  });
});
