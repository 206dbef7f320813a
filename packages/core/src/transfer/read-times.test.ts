import { expect, test } from 'vitest';
import { ReadTimes } from './read-times.ts';

const KIB = 1024;

test('the median of the last 32 reads, none of fewer than four', () => {
  const times = new ReadTimes();
  for (const ms of [1000, 1, 2]) times.note(64 * KIB, ms);
  expect(times.medianMs(64 * KIB)).toBeUndefined();
  times.note(64 * KIB, 3);
  expect(times.medianMs(64 * KIB)).toBe(3);
  for (let read = 0; read < 32; read += 1) times.note(64 * KIB, 40 + read);
  expect(times.medianMs(64 * KIB)).toBe(56);
});

test('reads of another size do not count, of about the same size they do', () => {
  const times = new ReadTimes();
  for (let read = 0; read < 10; read += 1) {
    times.note(8 * KIB * KIB, 500);
    times.note(KIB, 5);
  }
  expect(times.medianMs(15 * KIB * KIB)).toBe(500);
  expect(times.medianMs(KIB + 1)).toBe(5);
  expect(times.medianMs(64 * KIB)).toBeUndefined();
});
