import { describe, expect, test } from 'vitest';
import type { RetentionPolicy } from '../contract/retention.ts';
import {
  hasRules,
  NO_RULES,
  policyOf,
  policyRecord,
  policyText,
  rulesText,
  samePolicy,
} from './retention-policy.ts';
import { durationText, timeText } from './time-text.ts';

const ALL: Required<RetentionPolicy> = {
  keepLast: 3,
  keepEvery: 1000n,
  keepEveryMs: 3_600_000,
  keepForMs: 90_000,
  keepBest: [
    { metric: 'loss', mode: 'min', count: 2 },
    { metric: 'accuracy', mode: 'max', count: 1 },
  ],
  graceMs: 0,
};

function refusal(policy: unknown): string {
  try {
    policyRecord(policy as RetentionPolicy);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('it was accepted');
}

describe('policyRecord', () => {
  test('rules come back from the record as they were given, with the default grace where none was', () => {
    expect(policyOf(policyRecord(ALL))).toEqual(ALL);
    expect(policyOf(policyRecord({ keepEvery: 5 }))).toEqual({ keepEvery: 5n, graceMs: 3_600_000 });
  });

  test('without a rule there is no policy, whatever the grace', () => {
    expect(policyOf(policyRecord({ graceMs: 5 }))).toBeNull();
    expect(policyOf(undefined)).toBeNull();
    expect(rulesText(NO_RULES)).toBe('');
  });

  test.each<[string, unknown, string]>([
    ['an unknown rule', { keep: 3 }, 'there is no retention rule "keep"; there are: keepLast,'],
    ['none to keep', { keepLast: 0 }, 'keepLast is 0; it takes a whole number from 1 to 4294967295'],
    ['a fraction', { keepLast: 1.5 }, 'keepLast is 1.5'],
    ['more than a record holds', { keepLast: 2 ** 32 }, 'keepLast is 4294967296'],
    ['multiples of 0', { keepEvery: 0 }, 'keepEvery is 0; it takes a whole number from 1'],
    ['multiples below 0', { keepEvery: -1n }, 'version -1 cannot be used'],
    ['spans below a second', { keepEveryMs: 999 }, 'keepEveryMs is 999; it takes a whole number from 1000'],
    ['ages below a second', { keepForMs: 1 }, 'keepForMs is 1; it takes a whole number from 1000'],
    ['a grace below 0', { graceMs: -1 }, 'graceMs is -1; it takes a whole number from 0'],
    ['a best rule that is no list', { keepBest: { metric: 'loss' } }, 'keepBest takes a list'],
    ['no metric', { keepBest: [{ metric: '', mode: 'min', count: 1 }] }, 'needs the name of a metric'],
    [
      'no mode',
      { keepBest: [{ metric: 'loss', mode: 'low', count: 1 }] },
      'mode of keepBest by loss is "low"; it takes min',
    ],
    [
      'none of the best',
      { keepBest: [{ metric: 'loss', mode: 'min', count: 0 }] },
      'keepBest by loss is 0; it takes',
    ],
    ['no count', { keepBest: [{ metric: 'loss', mode: 'min' }] }, 'keepBest by loss is undefined; it takes'],
  ])('%s is refused, and the message says what is accepted', (_, policy, message) => {
    expect(refusal(policy)).toContain(message);
  });
});

test('rules are the same if they and the grace are', () => {
  expect(samePolicy(policyRecord(ALL), policyRecord({ ...ALL, keepEvery: 1000 }))).toBe(true);
  for (const change of [{ keepLast: 4 }, { graceMs: 1 }, { keepBest: [] }, { keepForMs: 91_000 }]) {
    expect(samePolicy(policyRecord(ALL), policyRecord({ ...ALL, ...change }))).toBe(false);
  }
  const lowest = policyRecord({ keepBest: [{ metric: 'loss', mode: 'min', count: 1 }] });
  const highest = policyRecord({ keepBest: [{ metric: 'loss', mode: 'max', count: 1 }] });
  expect(samePolicy(lowest, highest)).toBe(false);
});

test('the value of a rule is compared whole, whatever it consists of', () => {
  const rules = (keepEvery: unknown) => ({ ...NO_RULES, keepEvery: keepEvery as bigint });
  const value = (name: string) => [{ name, counts: [1, 2] }, 'all'];
  expect(samePolicy(rules(value('paper')), rules(value('paper')))).toBe(true);
  for (const other of [value('demo'), [...value('paper'), 1], 5n, []])
    expect(samePolicy(rules(value('paper')), rules(other))).toBe(false);
});

describe('a rule that only a newer version knows', () => {
  const newer = { ...NO_RULES, keepUnheardOf: 2 };
  const [best] = policyRecord({ keepBest: [{ metric: 'loss', mode: 'min', count: 1 }] }).keepBest;
  const newerBest = { ...NO_RULES, keepBest: [{ ...best!, withinMs: 5 }] };

  test.each([
    ['keepUnheardOf', newer],
    ['withinMs', newerBest],
  ])('%s counts as a rule, is the same as no other, and is not told as less than it is', (name, record) => {
    expect(hasRules(record)).toBe(true);
    expect(samePolicy(record, record)).toBe(false);
    expect(() => policyOf(record)).toThrow(`hold "${name}", which this one does not know`);
    expect(() => policyOf(record)).toThrow(expect.objectContaining({ code: 'UnsupportedFormat' }));
  });
});

test('rules, spans and times read as words', () => {
  expect(rulesText(policyRecord(ALL))).toBe(
    'newest 3, multiples of 1000, first of every 1 h, younger than 90 s, best 2 by loss (lowest), best 1 by accuracy (highest)',
  );
  expect(policyText(policyRecord({ keepLast: 3, graceMs: 0 }))).toBe('newest 3; grace 0 s');
  expect(policyText(policyRecord({ graceMs: 5 }))).toBe('none: everything is kept');
  expect([86_400_000, 90_000_000, 1500].map(durationText)).toEqual(['1 d', '25 h', '1500 ms']);
  expect(timeText(Date.UTC(2026, 10, 21, 14))).toBe('2026-11-21 14:00:00 UTC');
  expect(timeText(1e18)).toBe('1000000000000000000 ms');
});
