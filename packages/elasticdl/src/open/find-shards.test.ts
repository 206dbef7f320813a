import { expect, test } from 'vitest';
import { findShards } from './find-shards.ts';

const problem = (...names: string[]) => findShards(names).problem;

test('A7: a checkpoint is whole when every shard of 0 to n-1 is there, in whatever order they are listed', () => {
  const { shards, problem: none } = findShards(['variables-1-of-2.ckpt', 'variables-0-of-2.ckpt']);
  expect(none).toBeNull();
  expect(shards.map(({ index }) => index)).toEqual([0, 1]);
});

test('A7: eleven shards go by number: 10 comes after 9', () => {
  const names = Array.from({ length: 11 }, (_, index) => `variables-${index}-of-11.ckpt`);
  expect(findShards(names.toSorted()).shards.map(({ index }) => index)).toEqual([...names.keys()]);
});

test('A7: foreign and temporary files neither count nor disturb', () => {
  const foreign = ['variables-1-of-2.ckpt.tmp', 'readme.txt', 'notes-of-x.ckpt', '.nfs0001', 'variables'];
  expect(problem('variables-0-of-1.ckpt', ...foreign)).toBeNull();
  // ElasticDL would count two files and accept the checkpoint as whole.
  expect(problem('variables-0-of-2.ckpt', ...foreign)).toBe('lacks shard 1 of 2; it has 0');
});

test('no shard at all is said so', () => {
  expect(problem()).toContain('no shard');
  expect(problem('readme.txt')).toContain('no shard');
});

test('a missing shard is named, and what is there', () => {
  expect(problem('variables-0-of-4.ckpt', 'variables-2-of-4.ckpt')).toBe(
    'lacks shard 1, 3 of 4; it has 0, 2',
  );
});

test('a name that promises billions of shards costs no time, and its message stays short', () => {
  expect(problem('variables-0-of-9007199254740991.ckpt')).toBe(
    'lacks shard 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 9007199254740980 more of 9007199254740991; it has 0',
  );
  const odd = Array.from({ length: 100 }, (_, at) => `variables-${2 * at + 1}-of-1000.ckpt`);
  expect(problem(...odd)?.length).toBeLessThan(200);
});

test('shards of two counts in one directory are refused, even if one of the two is whole', () => {
  const message = problem('variables-0-of-1.ckpt', 'variables-0-of-2.ckpt');
  expect(message).toContain('more than one checkpoint: variables-0-of-1.ckpt and variables-0-of-2.ckpt');
});

test('the same shard under two names is refused', () => {
  expect(problem('variables-0-of-1.ckpt', 'variables-0-of-1.chkpt')).toContain(
    'more than once: variables-0-of-1.chkpt, variables-0-of-1.ckpt',
  );
  expect(problem('variables-0-of-1.ckpt', 'variables-00-of-1.ckpt')).toContain('more than once');
});

test('an index that the count does not allow is refused', () => {
  expect(problem('variables-0-of-1.ckpt', 'variables-1-of-1.ckpt')).toContain('the last is 0');
  expect(problem('variables-0-of-0.ckpt')).toContain('variables-0-of-0.ckpt');
});
