import { expect, test } from 'vitest';
import type { Counted } from './counter.ts';
import { lineChart } from './line-chart.ts';
import { ofVersions } from './scale.ts';
import { ofFiles } from './scale-files.ts';

const of = (rows: readonly Counted[], what: string) => rows.find((row) => row.what === `files: ${what}`);

test('a restore of one file takes no more requests of more files; a commit one for each writer and each page more', async () => {
  const [few, many] = [await ofFiles(1), await ofFiles(3000)];
  const restores = [few, many].map((rows) => of(rows, 'restore one')?.requests ?? 0);
  expect(restores[1]).toBeLessThanOrEqual((restores[0] ?? 0) + 2);
  const payloads = 1000;
  const extra = (of(many, 'last save and commit')?.requests ?? 0) - payloads;
  expect(extra).toBeLessThanOrEqual((of(few, 'last save and commit')?.requests ?? 0) + 3 + 4);
}, 30_000);

test('the run that is filled with versions is one that every call accepts, and reads of it cost what they cost in a saved run', async () => {
  const rows = await ofVersions(1100);
  const requests = (what: string) => rows.find((row) => row.what === `versions: ${what}`)?.requests;
  expect([requests('latest'), requests('list, newest 20'), requests('list all')]).toEqual([2, 2, 4]);
  expect(requests('collect 201')).toBeGreaterThan(201);
}, 30_000);

test('a chart has a line for each that is named, level where nothing grows', () => {
  const points = (values: readonly number[]) => values.map((value, at) => ({ size: 1000 ** at, value }));
  const lines = [
    { label: 'level & <flat>', points: points([10, 10, 10]) },
    { label: 'straight', points: points([1, 1000, 1_000_000]) },
  ];
  const svg = lineChart('title', 'note', [{ title: 'requests', lines }]);
  expect(svg).toContain('level &amp; &lt;flat>');
  const drawn = [...svg.matchAll(/points="([^"]*)"/g)].map(([, text = '']) => text.split(' '));
  expect(drawn.map((line) => line.length)).toEqual([3, 3]);
  const heights = drawn.map((line) => line.map((point) => Number(point.split(',')[1])));
  expect(new Set(heights[0]).size).toBe(1);
  const [first = 0, second = 0, third = 0] = heights[1] ?? [];
  expect(first - second).toBeCloseTo(second - third);
});
