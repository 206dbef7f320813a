import { expect, test } from 'vitest';
import { type ReferencesRun, referencesVerdicts } from './references.ts';
import { isMet } from './results.ts';
import { parseShape } from './s3/shapes.ts';

const COST = { userMs: 1, systemMs: 1, peakRssBytes: 1 };

function run(kind: ReferencesRun['kind'], wallMs: number, userMs = 1): ReferencesRun {
  return { ...COST, shape: '1x1MiB', store: 'local', kind, round: 0, wallMs, userMs };
}

test('changed files are held to a twentieth of processor time, and unchanged files to the time of new ones', () => {
  const judged = (...runs: ReferencesRun[]) =>
    referencesVerdicts({ conditions: 'here', shapes: [parseShape('1x1MiB')], stores: ['local'], runs }).map(
      isMet,
    );
  const before = [run('new, dedupe off', 100, 100), run('new, dedupe auto', 109, 100)];
  const changed = (userMs: number) => run('changed, dedupe auto', 100, userMs);
  const unchanged = (wallMs: number) => run('unchanged, dedupe auto', wallMs);
  expect(judged(...before, changed(104), unchanged(20))).toEqual([true, true]);
  expect(judged(...before, changed(107), unchanged(20))).toEqual([false, true]);
  expect(judged(...before, changed(104), unchanged(120))).toEqual([true, false]);
});
