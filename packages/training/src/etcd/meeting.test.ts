import { describe, expect, test } from 'vitest';
import {
  checkSamePolicy,
  hasEnded,
  isNewWorldDue,
  MeetingKeys,
  type MeetingRecords,
  meetingOf,
  nextMembers,
} from './meeting.ts';

const POLICY = { minWorkers: 2, maxWorkers: 3 };
const KEYS = new MeetingKeys('job');

/** `waitsAbove` by id, and the current world. */
function meeting(
  waitsAbove: Record<string, number>,
  seq = 0,
  members: readonly string[] = [],
): MeetingRecords {
  const entries = Object.entries(waitsAbove).map(
    ([id, above]) => [id, { ...POLICY, waitsAbove: above }] as const,
  );
  return { members: new Map(entries), world: { seq, members }, worldRevision: 1n, isOver: false };
}

describe('nextMembers', () => {
  test.each([
    ['nobody is there', meeting({}), null],
    ['too few', meeting({ a: 0 }), null],
    ['enough', meeting({ a: 0, b: 0 }), ['a', 'b']],
    ['too many: those who have been there longest', meeting({ a: 0, b: 0, c: 0, d: 0 }), ['a', 'b', 'c']],
    ['one trains', meeting({ a: 1, b: 0, c: 1 }, 1, ['a', 'b']), null],
    ['all who trained wait again', meeting({ a: 1, b: 1, c: 1 }, 1, ['a', 'b']), ['a', 'b', 'c']],
    ['one that trained is gone', meeting({ b: 1, c: 1 }, 1, ['a', 'b']), ['b', 'c']],
  ])('%s', (_, given, next) => {
    expect(nextMembers(given, POLICY)).toEqual(next);
  });
});

describe('hasEnded, isNewWorldDue', () => {
  test.each([
    ['all train', meeting({ a: 0, b: 0 }, 1, ['a', 'b']), false, false],
    ['one is gone', meeting({ a: 0 }, 1, ['a', 'b']), true, true],
    ['one waits for the next', meeting({ a: 0, b: 1 }, 1, ['a', 'b']), true, true],
    ['a new one waits', meeting({ a: 0, b: 0, c: 1 }, 1, ['a', 'b']), false, true],
    ['a new one waits in vain', meeting({ a: 0, b: 0, c: 0, d: 1 }, 1, ['a', 'b', 'c']), false, false],
    ['there is another world', meeting({ a: 0, b: 0 }, 2, ['a', 'b']), true, true],
    ['training is over', { ...meeting({ a: 0, b: 0 }, 1, ['a', 'b']), isOver: true }, false, true],
  ])('%s', (_, given, isEnded, isDue) => {
    expect([hasEnded(given, 1), isNewWorldDue(given, 1, POLICY)]).toEqual([isEnded, isDue]);
  });
});

describe('meetingOf', () => {
  const pair = (key: string, value: string) => ({ key, value: Buffer.from(value), modRevision: 7n });

  test('nothing is there: world 0, without members', () => {
    expect(meetingOf([], KEYS)).toEqual({ ...meeting({}), worldRevision: 0n });
  });

  test('members in the order given, the world with its revision, and whether it is over', () => {
    const member = (above: number) => JSON.stringify({ ...POLICY, waitsAbove: above });
    const pairs = [
      pair(`${KEYS.members}b`, member(1)),
      pair(KEYS.world, '{"seq":2,"members":["b","a"]}'),
      pair(`${KEYS.members}a`, member(2)),
      pair(KEYS.over, ''),
    ];
    const found = meetingOf(pairs, KEYS);
    expect(found).toEqual({ ...meeting({ b: 1, a: 2 }, 2, ['b', 'a']), worldRevision: 7n, isOver: true });
    expect([...found.members.keys()]).toEqual(['b', 'a']);
  });

  test('what no worker has written is Unexpected, and named', () => {
    expect(() => meetingOf([pair(KEYS.world, 'hello')], KEYS)).toThrow(
      expect.objectContaining({ code: 'Unexpected', message: expect.stringContaining('job/meeting/world') }),
    );
  });

  test('keys of later worlds, calls and ranks come later', () => {
    const keys = [
      KEYS.brought(9, 0, 0),
      KEYS.brought(10, 9, 10),
      KEYS.brought(10, 10, 9),
      KEYS.brought(10, 10, 10),
    ];
    expect([...keys].sort()).toEqual(keys);
    expect(keys[0]?.startsWith(KEYS.group(9))).toBe(true);
    expect(keys[1]?.startsWith(KEYS.group(10))).toBe(true);
  });
});

test('all are to have the same policy: InvalidArgument', () => {
  const there = meeting({ a: 0 });
  expect(() => checkSamePolicy(there, POLICY)).not.toThrow();
  expect(() => checkSamePolicy(there, { ...POLICY, minWorkers: 1 })).toThrow(
    expect.objectContaining({ code: 'InvalidArgument', message: expect.stringContaining('minWorkers 1') }),
  );
});
