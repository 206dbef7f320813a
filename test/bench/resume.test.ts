import { expect, test } from 'vitest';
import { isMet } from './results.ts';
import { type ResumeRun, resumeVerdicts } from './resume.ts';

function run(store: ResumeRun['store'], sentAgainShare: number, round = 0): ResumeRun {
  return { store, round, doneShare: 0.6, sentAgainShare, wallMs: 1 };
}

test('each store is held to what may be sent again, by the median of its rounds', () => {
  const runs = [run('MinIO', 0.4), run('MinIO', 0.9, 1), run('MinIO', 0.41, 2), run('local', 1)];
  const verdicts = resumeVerdicts({ conditions: 'here', runs });
  expect(verdicts.map(({ values }) => values)).toEqual([[1], [0.4, 0.9, 0.41]]);
  expect(verdicts.map(isMet)).toEqual([false, true]);
});
