import { ManualClock } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { repeatNotes } from './repeat-notes.ts';

test('the first repeat is told at once, then one every ten seconds; --verbose hears of all', async () => {
  const clock = new ManualClock();
  const told: string[] = [];
  const tell = repeatNotes(clock, {
    note: (text) => told.push(`note ${text}`),
    detail: (text) => told.push(`detail ${text}`),
  });
  tell('no connection');
  await clock.advance(9_999);
  tell('no answer');
  await clock.advance(1);
  tell('slow down');
  expect(told).toEqual([
    'note trying again: no connection',
    'detail trying again: no answer',
    'note trying again: slow down',
  ]);
});
