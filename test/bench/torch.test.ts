import { expect, test } from 'vitest';
import { isMet } from './results.ts';
import { type RankRound, roundsOf, torchVerdicts } from './torch.ts';

const took = (seconds: number, cpu = seconds) => ({ seconds, cpu, ownCpu: cpu / 2 });

function rank(tool: string, seconds: number, loop = 1): RankRound {
  const all = { save: took(seconds), done: took(seconds), load: took(seconds) };
  return { tool, copy: took(0.1), plan: took(0.1), blocked: took(seconds / 10), ...all, loop };
}

test('the slowest rank counts, and the processor time of all ranks for each GiB', () => {
  const found = roundsOf([[rank('Holdfast', 1, 0.8), rank('Holdfast', 2, 0.9)]], 2 ** 29);
  expect(found.get('Holdfast')).toEqual([
    expect.objectContaining({ copySeconds: 0.2, saveSeconds: 2, saveCpu: 6, loop: 0.8 }),
  ]);
});

test('each other tool is compared in the same round', () => {
  const lines = [
    [rank('Other', 3), rank('Other', 3)],
    [rank('Holdfast', 2), rank('Holdfast', 2)],
  ];
  const verdicts = torchVerdicts(roundsOf(lines, 2 ** 30));
  expect(verdicts.map((verdict) => [verdict.what, isMet(verdict)])).toEqual([
    ['a rank is blocked by a save in the background, s', true],
    ['the same / a plain copy into warm memory and the planning of DCP', true],
    ['CPU of the ranks in it, s/GiB', true],
    ['speed of the training beside the save / before', true],
    ['save to commit, time / Other', true],
    ['save to commit, CPU / Other', true],
    ['load, time / Other', true],
    ['load, CPU / Other', true],
  ]);
  const slower = torchVerdicts(
    roundsOf(
      lines.map((each) => each.map((one) => ({ ...one, tool: one.tool === 'Other' ? 'Holdfast' : 'Other' }))),
      2 ** 30,
    ),
  );
  expect(slower.slice(2).map(isMet)).toEqual([false, true, false, false, false, false]);
});
