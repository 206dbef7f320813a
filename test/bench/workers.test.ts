import { expect, test } from 'vitest';
import { isMet } from './results.ts';
import { parseShape } from './s3/shapes.ts';
import { type WorkersRun, workersVerdicts } from './workers.ts';

function run(kind: WorkersRun['kind'], workers: number, wallMs: number, mainCpuMs = 10): WorkersRun {
  return { kind, workers, round: 0, wallMs, cpuMs: 100, mainCpuMs, peakRssBytes: 1 };
}

test('two workers are held to a speed, and any number to a share of the main thread', () => {
  const judged = (...runs: WorkersRun[]) =>
    workersVerdicts({ conditions: 'here', shape: parseShape('1x1MiB'), counts: [0, 1, 2], runs }).map(
      (verdict) => [verdict.values, isMet(verdict)],
    );
  const one = [run('hash', 0, 170), run('send', 0, 1), run('hash', 1, 160), run('send', 1, 1)];
  expect(judged(...one, run('hash', 2, 100), run('send', 2, 1, 15))).toEqual([
    [[170 / 160], true],
    [[0.1], true],
    [[1.7], true],
    [[0.15], true],
  ]);
  expect(judged(...one, run('hash', 2, 110), run('send', 2, 1, 16)).map(([, met]) => met)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
