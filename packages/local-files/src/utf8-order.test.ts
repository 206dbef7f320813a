import { expect, test } from 'vitest';
import { compareUtf8 } from './utf8-order.ts';

test('compareUtf8 orders as the bytes do, surrogates and prefixes included', () => {
  const names = [
    '',
    'a',
    'a-b',
    'a/b',
    'a0',
    'ab',
    'Z',
    'é',
    'z',
    '\u{e000}',
    '\u{ffff}',
    '\u{10000}',
    '\u{1f600}',
    '\u{d7ff}',
    '日本',
    'a\u{10000}',
    'a\u{ff5e}',
  ];
  const byBytes = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  expect([...names].sort(compareUtf8)).toEqual(byBytes);
  expect(byBytes).not.toEqual([...names].sort()); // the order of JavaScript is another
  for (const name of names) expect(compareUtf8(name, name)).toBe(0);
});
