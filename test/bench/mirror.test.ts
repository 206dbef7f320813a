import { expect, test } from 'vitest';
import { type MirrorRun, mirrorVerdicts } from './mirror.ts';
import { isMet } from './results.ts';
import { MIB, parseShape } from './s3/shapes.ts';

const SHAPE = parseShape('1x1GiB');

function run(what: string, wallMs: number, round = 0, peakRssBytes = 200 * MIB): MirrorRun {
  return { what, shape: SHAPE.name, round, wallMs, userMs: 1, systemMs: 1, peakRssBytes };
}

test('a mirror is held against the slower of the two saves, round by round, and to its memory in every round', () => {
  const verdicts = mirrorVerdicts({
    conditions: 'here',
    shapes: [SHAPE],
    runs: [
      run('save to local', 1000),
      run('save to local', 5000, 1),
      run('save to MinIO', 4000),
      run('save to MinIO', 2000, 1),
      run('mirror local → MinIO', 5000),
      run('mirror local → MinIO', 4000, 1, 385 * MIB),
      run('save to Azurite', 6000),
      run('mirror MinIO → Azurite', 10_000),
    ],
  });
  expect(verdicts.map(({ values }) => values)).toEqual([[0.8, 1.25], [385], [0.6], [200]]);
  expect(verdicts.map(isMet)).toEqual([true, false, false, true]);
});
