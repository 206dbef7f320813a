import { expect, test } from 'vitest';
import { type ReferencesRun, referencesVerdicts } from './references.ts';
import { isMet } from './results.ts';
import { parseShape } from './s3/shapes.ts';

const COST = { userMs: 1, systemMs: 1, peakRssBytes: 1 };

function run(kind: ReferencesRun['kind'], wallMs: number, round = 0): ReferencesRun {
  return { ...COST, shape: '1x1MiB', store: 'local', kind, round, wallMs };
}

test('hashing is held to a tenth of the time, round by round, and unchanged files to less than new ones', () => {
  const judged = (...runs: ReferencesRun[]) =>
    referencesVerdicts({ conditions: 'here', shapes: [parseShape('1x1MiB')], stores: ['local'], runs }).map(
      isMet,
    );
  const unchanged = run('unchanged, dedupe auto', 20);
  expect(judged(run('new, dedupe off', 100), run('new, dedupe auto', 109), unchanged)).toEqual([true, true]);
  expect(judged(run('new, dedupe off', 100), run('new, dedupe auto', 112), unchanged)).toEqual([false, true]);
  const slow = run('unchanged, dedupe auto', 120);
  expect(judged(run('new, dedupe off', 100), run('new, dedupe auto', 109), slow)).toEqual([true, false]);
});
