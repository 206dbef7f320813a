import { expect, test } from 'vitest';
import { allEnded, Pool } from './at-once.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('allEnded: the first in the list is thrown, and not before the last has ended', async () => {
  let isEnded = false;
  const late = turn().then(() => {
    isEnded = true;
  });
  await expect(
    allEnded([Promise.reject(new Error('first')), Promise.reject(new Error('second')), late]),
  ).rejects.toThrow('first');
  expect(isEnded).toBe(true);
});

test('Pool: a caller that finds nothing waits, in order', async () => {
  const pool = new Pool(['a']);
  expect(await pool.take()).toBe('a');
  const waiting = [pool.take(), pool.take()];
  pool.give('b');
  pool.give('c');
  pool.give('d');
  expect(await Promise.all(waiting)).toEqual(['b', 'c']);
  expect(await pool.take()).toBe('d');
});
