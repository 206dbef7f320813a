import type { RetentionPolicy } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { save } from './commands/save.ts';
import { type Option, readOption } from './option.ts';
import { givenRetention, RETENTION_OPTIONS, rulesToSet } from './retention-options.ts';

/** A call in which these options were given. */
function call(given: Record<string, string | readonly string[]>) {
  return {
    get<T>(option: Option<T>): T | undefined {
      const text = given[option.name];
      if (text === undefined) return undefined;
      const read = (one: string) => readOption(option, one, 'arguments');
      return (typeof text === 'string' ? read(text) : text.map(read)) as T;
    },
  };
}

describe('givenRetention', () => {
  it('every rule has its option, and all go together', () => {
    const { rules } = givenRetention(
      call({
        keep: '3',
        'keep-every': ['1000', '1h'],
        'keep-for': '30d',
        'keep-best': ['loss:min:3', 'val:auc:max:1'],
        grace: '10m',
      }),
    );
    const all: Required<RetentionPolicy> = {
      keepLast: 3,
      keepEvery: 1000n,
      keepEveryMs: 3_600_000,
      keepForMs: 30 * 86_400_000,
      keepBest: [
        { metric: 'loss', mode: 'min', count: 3 },
        { metric: 'val:auc', mode: 'max', count: 1 },
      ],
      graceMs: 600_000,
    };
    expect(rules).toEqual(all);
  });

  it('without a rule no rules are set, and a grace may stand alone', () => {
    expect(givenRetention(call({}))).toEqual({ rules: undefined, graceMs: undefined });
    expect(givenRetention(call({ grace: '0' }))).toEqual({ rules: undefined, graceMs: 0 });
  });

  it('--keep all is rules that keep everything', () => {
    expect(givenRetention(call({ keep: 'all' })).rules).toEqual({});
    expect(givenRetention(call({ keep: 'all', grace: '1s' })).rules).toEqual({ graceMs: 1000 });
    expect(() => givenRetention(call({ keep: 'all', 'keep-every': ['5'] }))).toThrow(
      '--keep all cannot be combined with other rules',
    );
  });

  it('--keep-every takes one number and one duration', () => {
    expect(() => givenRetention(call({ 'keep-every': ['5', '7'] }))).toThrow(
      '--keep-every: two numbers are given; one and a duration are accepted',
    );
    expect(() => givenRetention(call({ 'keep-every': ['1h', '1d'] }))).toThrow(
      '--keep-every: two durations are given; one and a number are accepted',
    );
  });
});

describe('rulesToSet', () => {
  it('a save without rules leaves those of the run as they are', () => {
    expect(rulesToSet(call({}))).toBeUndefined();
    expect(rulesToSet(call({ keep: '2' }))).toEqual({ keepLast: 2 });
  });

  it('a grace without a rule is refused', () => {
    expect(() => rulesToSet(call({ grace: '1h' }))).toThrow('--grace needs a rule, such as --keep 3');
  });

  it('save has all of these options', () => {
    expect(save.options).toEqual(expect.arrayContaining([...RETENTION_OPTIONS]));
  });
});
