/** Draws the loss by update as a chart of characters. */

import type { LossPoint } from './job.ts';

const COLUMN_COUNT = 72;
const LINE_COUNT = 9;
const FIRST_LIFE = '·';
const SECOND_LIFE = '●';

/**
 * Draws two lives of a job, the second of which began at `resumedAt`. Each column is the mean of
 * its updates. The chart shows the second life for columns in which both lives have a value.
 */
export function lossChart(
  lives: readonly [readonly LossPoint[], readonly LossPoint[]],
  resumedAt: number,
): string[] {
  const updateCount = Math.max(...lives.flat().map(({ update }) => update)) + 1;
  const columnOf = (update: number) => Math.floor((update / updateCount) * COLUMN_COUNT);
  const means = lives.map((points) => meanByColumn(points, columnOf));
  const all = means.flatMap((byColumn) => [...byColumn.values()]);
  const [highest, lowest] = [Math.max(...all), Math.min(...all)];
  const lineOf = (loss: number) =>
    Math.round(((highest - loss) / (highest - lowest || 1)) * (LINE_COUNT - 1));

  const cells = Array.from({ length: LINE_COUNT }, () => new Array<string>(COLUMN_COUNT).fill(' '));
  for (const line of cells) line[columnOf(resumedAt)] = '│';
  for (const [life, byColumn] of means.entries()) {
    for (const [column, loss] of byColumn) {
      const line = cells[lineOf(loss)];
      if (line !== undefined) line[column] = life === 0 ? FIRST_LIFE : SECOND_LIFE;
    }
  }
  const lossAt = (line: number) => highest - (line / (LINE_COUNT - 1)) * (highest - lowest);
  return [
    ...cells.map((line, at) => `${lossAt(at).toFixed(3)} ┤${line.join('')}`.trimEnd()),
    `      └${'─'.repeat(COLUMN_COUNT)}`,
    axis([0, resumedAt, updateCount], columnOf),
  ];
}

function meanByColumn(
  points: readonly LossPoint[],
  columnOf: (update: number) => number,
): ReadonlyMap<number, number> {
  const sums = new Map<number, { loss: number; count: number }>();
  for (const { update, loss } of points) {
    const sum = sums.get(columnOf(update)) ?? { loss: 0, count: 0 };
    sums.set(columnOf(update), { loss: sum.loss + loss, count: sum.count + 1 });
  }
  return new Map(Array.from(sums, ([column, { loss, count }]) => [column, loss / count]));
}

/** The axis: each number ends below its column. */
function axis(updates: readonly number[], columnOf: (update: number) => number): string {
  let line = '';
  for (const update of updates) line = line.padEnd(8 + columnOf(update) - String(update).length) + update;
  return `${line} updates`;
}
