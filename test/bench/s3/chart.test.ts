import { expect, test } from 'vitest';
import { type Bar, barChart } from './chart.ts';

function bar(label: string, median: number, range: [number, number] = [median, median]): Bar {
  return { label, median, min: range[0], max: range[1], isOurs: label === 'ours' };
}

function chartOf(bars: Bar[]): string {
  return barChart({ title: 'a <b> & "c"', note: 'note', rows: [[{ title: 'panel', bars }]] });
}

function widths(svg: string): number[] {
  return Array.from(svg.matchAll(/<rect class="(?:bar|ours)"[^>]* width="([\d.]+)"/g), (match) =>
    Number(match[1]),
  );
}

test('barChart: bars are as long as their medians, and ours has a colour of its own', () => {
  const svg = chartOf([bar('ours', 1), bar('peer', 4, [3, 5])]);
  const [ours = 0, peer = 0] = widths(svg);
  expect(peer / ours).toBeCloseTo(4, 1);
  expect(svg.match(/class="ours"/g)).toHaveLength(1);
  expect(svg).toContain('>1.00<');
});

test('barChart: nothing is drawn outside the picture, the longest range included', () => {
  const svg = chartOf([bar('ours', 1), bar('peer', 100, [50, 1000])]);
  const [, width = 0] = (/viewBox="0 0 (\d+)/.exec(svg) ?? []).map(Number);
  const ends = Array.from(svg.matchAll(/ x[12]?="([\d.]+)"/g), (match) => Number(match[1]));
  expect(Math.max(...ends)).toBeLessThan(width - 20);
  expect(svg).not.toContain('NaN');
});

test('barChart: it is readable in light and dark, and text is escaped', () => {
  const svg = chartOf([]);
  expect(svg).toContain('@media(prefers-color-scheme:dark)');
  expect(svg).toContain('>a &lt;b> &amp; &quot;c&quot;<');
});
