import { describe, expect, it } from 'vitest';
import { areaUnderCurve, evaluate } from './evaluation.ts';

describe('areaUnderCurve', () => {
  it.each([
    { predictions: [0.1, 0.2, 0.8, 0.9], clicked: [0, 0, 1, 1], auc: 1, what: 'all in order' },
    { predictions: [0.9, 0.8, 0.2, 0.1], clicked: [0, 0, 1, 1], auc: 0, what: 'all the wrong way' },
    { predictions: [0.5, 0.5, 0.5, 0.5], clicked: [0, 1, 0, 1], auc: 0.5, what: 'all the same' },
    { predictions: [0.1, 0.4, 0.35, 0.8], clicked: [0, 0, 1, 1], auc: 0.75, what: 'one pair of four wrong' },
    { predictions: [0.2, 0.2, 0.1, 0.9], clicked: [0, 1, 0, 1], auc: 0.875, what: 'one pair of four equal' },
  ])('$what: $auc', ({ predictions, clicked, auc }) => {
    expect(areaUnderCurve(Float64Array.from(predictions), Uint8Array.from(clicked))).toBe(auc);
  });
});

describe('evaluate', () => {
  it('gives the mean loss over the batch', () => {
    const batch = { ids: [], clicked: Uint8Array.of(1, 0) };
    const { loss } = evaluate(Float64Array.of(0.5, 0.75), batch);
    expect(loss).toBeCloseTo((Math.log(2) + Math.log(4)) / 2);
  });
});
