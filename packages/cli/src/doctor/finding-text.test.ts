import { describe, expect, it } from 'vitest';
import { plainStyle } from '../style.ts';
import { CHECKS } from './checks.ts';
import type { Finding } from './finding.ts';
import { findingText, notRunText, toDoText } from './finding-text.ts';

const finding = (rest: Partial<Finding>): Finding => ({
  id: 'race',
  title: 'race to create',
  status: 'ok',
  seen: '',
  meaning: '',
  advice: '',
  code: null,
  because: null,
  durationMs: 1,
  figures: {},
  ...rest,
});

describe('findingText', () => {
  it('what is well is one line', () => {
    expect(findingText(finding({ seen: 'one winner each' }), plainStyle)).toBe(
      'ok        race to create     one winner each',
    );
  });

  it('what is not well says what was seen and what it means', () => {
    const text = findingText(
      finding({
        status: 'failed',
        seen: 'in round 3 of 10 2 of 32 creates of one key succeeded, which is more than one',
        meaning: 'two writers could both commit',
        advice: 'use another store',
      }),
      plainStyle,
    );
    expect(text.split('\n')).toEqual([
      'failed    race to create     in round 3 of 10 2 of 32 creates of one key',
      '                             succeeded, which is more than one',
      '          two writers could both commit',
    ]);
  });

  it('everything that a check can say fits 80 columns', () => {
    for (const { title, meaning, advice, whenDenied } of CHECKS) {
      for (const seen of ['', 'word '.repeat(60).trim()]) {
        const texts = [meaning, whenDenied ?? ''].map((said) =>
          findingText(finding({ status: 'degraded', title, seen, meaning: said }), plainStyle),
        );
        texts.push(...toDoText([finding({ status: 'failed', title, advice })], plainStyle));
        for (const line of texts.join('\n').split('\n')) expect(line.length).toBeLessThan(80);
      }
    }
  });

  it('what to do is told in the end: each thing once, of what failed or is degraded', () => {
    const bad = (title: string, advice: string) => finding({ status: 'degraded', title, advice });
    const findings = [
      finding({ title: 'fine', advice: '' }),
      bad('may list', 'check the credentials'),
      bad('lifecycle', `add a rule ${'with a long explanation '.repeat(3).trim()}`),
      bad('may create', 'check the credentials'),
      bad('clock', ''),
    ];
    expect(toDoText(findings, plainStyle).join('\n').split('\n')).toEqual([
      'to do     may list, may create: check the credentials',
      '          lifecycle: add a rule with a long explanation with a long explanation',
      '          with a long explanation',
    ]);
    expect(toDoText([finding({})], plainStyle)).toEqual([]);
  });

  it('what a store says does not reach the terminal as control characters', () => {
    expect(findingText(finding({ seen: 'a\u001b[2Jb' }), plainStyle)).toContain('a\\x1b[2Jb');
  });

  it('what was not run is told in one line for each cause', () => {
    const kept = ['one', 'two', 'three'].map((title, n) =>
      finding({ title, status: 'not-run', because: n < 2 ? 'may create' : 'may list' }),
    );
    expect(notRunText([finding({}), ...kept], plainStyle)).toEqual([
      'not run   one, two: they need "may create"',
      'not run   three: needs "may list"',
    ]);
  });

  it('many that were not run are counted', () => {
    const kept = Array.from({ length: 9 }, () => finding({ status: 'not-run', because: 'reachable' }));
    expect(notRunText(kept, plainStyle)).toEqual(['not run   9 other checks: they need "reachable"']);
  });
});
