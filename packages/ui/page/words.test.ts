import { expect, test } from 'vitest';
import { age, bytes, clocksText, count, duration, metric, plural, shellQuote, time } from './words.ts';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1000, '1.0 KiB'],
  [1024 * 1024, '1.0 MiB'],
  [432.4 * 1024 ** 2, '432 MiB'],
  [5 * 1024 ** 6, '5120 PiB'],
])('%d bytes are %s', (value, expected) => {
  expect(bytes(value)).toBe(expected);
});

test.each([
  [0, '0.0 s'],
  [9949, '9.9 s'],
  [17_400, '17 s'],
  [240_000, '4 min'],
  [2 * 3_600_000, '2.0 h'],
  [12 * 86_400_000, '12 d'],
  [1234 * 86_400_000, '1,234 d'],
])('%d ms are %s', (value, expected) => {
  expect(duration(value)).toBe(expected);
});

test('an age is just now, ago, or in the future', () => {
  const now = 1_000_000_000;
  expect(age(now - 1000, now)).toBe('just now');
  expect(age(now + 4000, now)).toBe('just now');
  expect(age(now - 240_000, now)).toBe('4 min ago');
  expect(age(now + 240_000, now)).toBe('4 min in the future by this clock');
});

test('clocks that differ are told from half a minute on, with the direction', () => {
  expect(clocksText(30_000)).toBeNull();
  expect(clocksText(-30_000)).toBeNull();
  const which = "Ages of commits are by the store's clock";
  expect(clocksText(7_200_000)).toBe(`The store is 2.0 h ahead of this machine. ${which}`);
  expect(clocksText(-7_200_000)).toBe(`The store is 2.0 h behind this machine. ${which}`);
});

test('numbers, counts and times', () => {
  expect([count(999), count(1000), count(1_234_567)]).toEqual(['999', '1,000', '1,234,567']);
  expect([plural(1, 'run'), plural(0, 'run'), plural(1000, 'run')]).toEqual([
    '1 run',
    '0 runs',
    '1,000 runs',
  ]);
  expect([metric(3), metric(0.123456), metric(0.00001234), metric(1_234_567.8)]).toEqual([
    ...['3', '0.1235', '1.234e-5', '1.235e+6'],
  ]);
  expect(time(0)).toBe('1970-01-01 00:00:00 UTC');
  expect(time(9e15)).toBe('9000000000000000 ms');
});

test('a word for the shell is quoted if it has anything else than plain characters', () => {
  expect(shellQuote('s3://bucket/a_b-1.2')).toBe('s3://bucket/a_b-1.2');
  expect(shellQuote("it's $HOME")).toBe("'it'\\''s $HOME'");
  expect(shellQuote('')).toBe("''");
});
