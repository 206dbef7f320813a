import { describe, expect, it } from 'vitest';
import { bell, mix } from './chance.ts';
import { DeepFm, type Dense, type Gathered, logisticLoss } from './deep-fm.ts';
import { DENSE_VARIABLES, DIM, TABLE_NAMES } from './parameters.ts';

const CLICKED = Uint8Array.of(1, 0, 1, 1, 0);
/** Larger than the initial values of a model, so that every term matters. */
const random = (stream: number, length: number) =>
  Float32Array.from({ length }, (_, k) => 0.3 * bell(mix(11, stream, k)));

/** Two examples share the user. Three examples share the hour. */
const gathered: Gathered = {
  slots: [Int32Array.of(0, 1, 1, 2, 3), Int32Array.of(0, 1, 2, 3, 4), Int32Array.of(0, 0, 0, 1, 1)],
  rows: [4, 5, 2].map((rowCount, table) => random(table, rowCount * DIM)),
  dense: DENSE_VARIABLES.map(({ length }, i) => random(10 + i, length)) as unknown as Dense,
};

function totalLoss(): number {
  const probabilities = new DeepFm().predict(gathered);
  return probabilities.reduce((sum, probability, i) => sum + logisticLoss(probability, CLICKED[i]!), 0);
}

/** The derivative by central differences, independent of how `learn` computes it. */
function slope(values: Float32Array, at: number): number {
  const value = values[at]!;
  const step = 2 ** -9;
  values[at] = value + step;
  const above = totalLoss();
  values[at] = value - step;
  const below = totalLoss();
  values[at] = value;
  return (above - below) / (2 * step);
}

describe('DeepFm', () => {
  const { loss, gradients } = new DeepFm().learn(gathered, CLICKED);

  it('learn: the loss is the mean over all examples', () => {
    expect(loss).toBeCloseTo(totalLoss() / CLICKED.length, 12);
  });

  it.each(TABLE_NAMES.map((name, table) => ({ name, table })))(
    'learn: the gradients of $name rows are the slopes of the summed loss',
    ({ table }) => {
      const values = gathered.rows[table]!;
      for (const at of values.keys()) {
        expect(gradients.rows[table]![at], `element ${at}`).toBeCloseTo(slope(values, at), 3);
      }
      expect(Math.max(...gradients.rows[table]!.map(Math.abs))).toBeGreaterThan(0.1);
    },
  );

  it.each(DENSE_VARIABLES.map(({ name }, i) => ({ name, i })))(
    'learn: the gradients of $name are the slopes of the mean loss',
    ({ i }) => {
      const values = gathered.dense[i]!;
      for (const at of values.keys()) {
        const expected = slope(values, at) / CLICKED.length;
        expect(gradients.dense[i]![at], `element ${at}`).toBeCloseTo(expected, 3);
      }
      expect(Math.max(...gradients.dense[i]!.map(Math.abs))).toBeGreaterThan(0.01);
    },
  );

  it('logisticLoss: a wrong certainty has a large, finite loss', () => {
    expect(logisticLoss(0.5, 1)).toBeCloseTo(Math.LN2);
    expect(logisticLoss(0, 1)).toBeLessThan(30);
    expect(logisticLoss(1, 0)).toBeGreaterThan(20);
    expect(logisticLoss(1, 1)).toBe(-0);
  });
});
