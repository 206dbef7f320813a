import { describe, expect, it } from 'vitest';
import { heldOut, trainingBatch } from './clicks.ts';
import { shapeOf } from './parameters.ts';

const shape = shapeOf(7, 16 * 2 ** 20);

describe('clicks', () => {
  it('the same stream and step give the same clicks; another of either gives others', () => {
    const batch = trainingBatch(shape, 1, 5);
    expect(trainingBatch(shape, 1, 5)).toEqual(batch);
    for (const other of [
      trainingBatch(shape, 0, 5),
      trainingBatch(shape, 1, 6),
      trainingBatch({ ...shape, seed: 8 }, 1, 5),
    ]) {
      expect(other.ids).not.toEqual(batch.ids);
    }
  });

  it('ids are within their tables, and a few are most of them', () => {
    const { ids } = heldOut(shape);
    for (const [table, rowCount] of shape.rowCounts.entries()) {
      expect(Math.min(...ids[table]!)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...ids[table]!)).toBeLessThan(rowCount);
    }
    const users = ids[0]!;
    const ofTheFirstHundred = users.filter((user) => user < 100).length / users.length;
    expect(ofTheFirstHundred).toBeGreaterThan(0.4);
    expect(Math.max(...users)).toBeGreaterThan(shape.rowCounts[0] / 2);
  });

  it('both happens: clicks, and none', () => {
    const { clicked } = heldOut(shape);
    const share = clicked.reduce((sum, each) => sum + each, 0) / clicked.length;
    expect(share).toBeGreaterThan(0.2);
    expect(share).toBeLessThan(0.8);
  });
});
