import { describe, expect, test } from 'vitest';
import { StaticElection } from './static-election.ts';

const election = new StaticElection();
const WEEK_MS = 604_800_000;

describe('A14: StaticElection', () => {
  test('the trainer with id "0" saves, as often as it asks, and no other', async () => {
    const answers = ['0', '1', '00', '0 ', '0'].map((id) => election.requestSave(id, 5000));
    expect(await Promise.all(answers)).toEqual([true, false, false, false, true]);
  });
});

describe('what is asked', () => {
  test('A14: an empty trainer id is InvalidArgument', async () => {
    await expect(election.requestSave('', 5000)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: 'trainer id is ""; it takes text that is not empty',
    });
  });

  test.each([
    '.',
    '..',
    '.hidden',
    '.holdfast-x',
    'a/b',
    '/a',
    'a/',
    'a\\b',
    'a\nb',
    'a\0',
    '\ud800',
    'é'.repeat(128),
  ])('a trainer id that is no name of a directory is InvalidArgument: %j', async (id) => {
    await expect(election.requestSave(id, 5000)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('is not a directory name: it takes 1 to 255 bytes'),
    });
  });

  test.each(['c0ffee00-0000-4000-8000-000000000000', 'node 7', 'a..b', '嵌入', 'x'.repeat(255)])(
    'a trainer id may be %j',
    async (id) => {
      expect(await election.requestSave(id, 5000)).toBe(false);
    },
  );

  test.each([0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, WEEK_MS + 1])(
    'blockMs %d is InvalidArgument',
    async (blockMs) => {
      await expect(election.requestSave('0', blockMs)).rejects.toMatchObject({
        code: 'InvalidArgument',
        message: `blockMs is ${blockMs}; it takes a whole number from 1 to ${WEEK_MS}`,
      });
    },
  );

  test.each([1, WEEK_MS])('blockMs may be %d', async (blockMs) => {
    expect(await election.requestSave('0', blockMs)).toBe(true);
  });
});
