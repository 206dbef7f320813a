import { describe, expect, it } from 'vitest';
import { lossChart } from './chart.ts';

const losses = (from: number, until: number, lossOf: (update: number) => number) =>
  Array.from({ length: until - from }, (_, i) => ({ update: from + i, loss: lossOf(from + i) }));

describe('lossChart', () => {
  it('shows both lives from the highest mean to the lowest, and where the second began', () => {
    const falling = (update: number) => 1 - update / 1440;
    const chart = lossChart([losses(0, 480, falling), losses(360, 720, falling)], 360);
    expect(chart[0]).toMatch(/^0\.997 ┤··/);
    expect(chart.at(-3)).toMatch(/^0\.504 ┤ {36}│ +●+$/);
    expect(chart.at(-1)).toBe(`${' '.repeat(7)}0${' '.repeat(33)}360${' '.repeat(33)}720 updates`);
    expect(chart.join('')).toContain('●');
    expect(Math.max(...chart.map((line) => line.length))).toBeLessThan(97);
  });
});
