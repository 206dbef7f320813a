import { expect, test } from 'vitest';
import { isMet } from './results.ts';
import { type VerifyRun, verifyVerdicts } from './verify.ts';

function run(fields: Partial<VerifyRun>): VerifyRun {
  const counts = { requestCount: 10, headCount: 3, payloadBytes: 0, storedChecksumCount: 3 };
  return { level: 0, wallMs: 100, ...counts, ...fields };
}

test('level 0 is held to its time, to no payload at all in any round, and to the checksums of all files', () => {
  const judged = (...runs: VerifyRun[]) =>
    verifyVerdicts({ conditions: 'here', fileCount: 3, runs }).map((verdict) => isMet(verdict));
  expect(judged(run({}), run({ level: 2, payloadBytes: 9, wallMs: 9999 }))).toEqual([true, true, true]);
  expect(judged(run({ wallMs: 6000 }))).toEqual([false, true, true]);
  expect(judged(run({}), run({}), run({ payloadBytes: 1 }))).toEqual([true, false, true]);
  expect(judged(run({ storedChecksumCount: 2 }))).toEqual([true, true, false]);
});
