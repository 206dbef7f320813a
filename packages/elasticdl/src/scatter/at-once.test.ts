import { expect, test } from 'vitest';
import { allEnded, eachAtOnce, Pool } from './at-once.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('eachAtOnce: items are taken in order, and never more at a time than allowed', async () => {
  const begun: number[] = [];
  let [now, most] = [0, 0];
  await eachAtOnce([1, 2, 3, 4, 5], 2, async (item) => {
    begun.push(item);
    most = Math.max(most, ++now);
    await turn();
    now--;
  });
  expect([begun, most]).toEqual([[1, 2, 3, 4, 5], 2]);
});

test('eachAtOnce: after a failure nothing is begun, and it is heard of when all has ended', async () => {
  const begun: number[] = [];
  let ended = 0;
  const all = eachAtOnce([1, 2, 3, 4], 2, async (item) => {
    begun.push(item);
    if (item === 1) throw new Error('one');
    await turn();
    ended++;
  });
  await expect(all).rejects.toThrow('one');
  expect([begun, ended]).toEqual([[1, 2], 1]);
});

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

test('Pool: who finds nothing waits, in order', async () => {
  const pool = new Pool(['a']);
  expect(await pool.take()).toBe('a');
  const waiting = [pool.take(), pool.take()];
  pool.give('b');
  pool.give('c');
  pool.give('d');
  expect(await Promise.all(waiting)).toEqual(['b', 'c']);
  expect(await pool.take()).toBe('d');
});
