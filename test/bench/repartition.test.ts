import { expect, test } from 'vitest';
import { inspectVerdicts, type OneCost, repartitionVerdicts } from './repartition.ts';
import { isMet } from './results.ts';

const MIB = 2 ** 20;

function cost(fields: Partial<OneCost>): OneCost {
  return { bytes: 1024, wallMs: 1000, cpuMs: 1, peakRssBytes: 300 * MIB, ...fields };
}

test('dividing is held to a share of the speed of streams, of the same round, and to the memory of every round', () => {
  const judged = (repartition: OneCost[], streams: OneCost[]) =>
    repartitionVerdicts({ conditions: '', bufferBytes: 256 * MIB, repartition, streams }).map(isMet);
  expect(judged([cost({ wallMs: 1600 })], [cost({})])).toEqual([true, true]);
  expect(judged([cost({ wallMs: 1700 })], [cost({})])).toEqual([false, true]);
  expect(judged([cost({}), cost({ peakRssBytes: 460 * MIB })], [cost({}), cost({})])).toEqual([true, false]);
});

test('inspecting is held to its time and to what it reads', () => {
  const judged = (run: Partial<OneCost>) => inspectVerdicts({ conditions: '', runs: [cost(run)] }).map(isMet);
  expect(judged({ wallMs: 99 })).toEqual([true, true]);
  expect(judged({ wallMs: 101, bytes: 1025 * 1024 })).toEqual([false, false]);
});
