/** Quality of a model on clicks that it was not trained on. */

import type { Batch } from './clicks.ts';
import { logisticLoss } from './deep-fm.ts';

export interface Evaluation {
  /** Mean logistic loss. */
  readonly loss: number;
  /**
   * Share of pairs in which a clicked example gets a higher probability than one without a click.
   * Chance gives 0.5.
   */
  readonly auc: number;
  /** For each example. */
  readonly predictions: Float64Array;
}

export function evaluate(predictions: Float64Array, { clicked }: Batch): Evaluation {
  let lossSum = 0;
  for (const [i, label] of clicked.entries()) lossSum += logisticLoss(predictions[i] as number, label);
  return { loss: lossSum / clicked.length, auc: areaUnderCurve(predictions, clicked), predictions };
}

/** Computed from ranks (Mann and Whitney). Equal predictions share their mean rank. */
export function areaUnderCurve(predictions: Float64Array, clicked: Uint8Array): number {
  const order = Uint32Array.from(predictions.keys()).sort(
    (a, b) => (predictions[a] as number) - (predictions[b] as number),
  );
  let rankSum = 0;
  let clickedCount = 0;
  for (let start = 0; start < order.length; ) {
    let end = start;
    let clickedHere = 0;
    while (end < order.length && predictions[order[end] as number] === predictions[order[start] as number]) {
      clickedHere += clicked[order[end] as number] as number;
      end += 1;
    }
    rankSum += (clickedHere * (start + end + 1)) / 2; // ranks count from 1
    clickedCount += clickedHere;
    start = end;
  }
  const otherCount = order.length - clickedCount;
  return (rankSum - (clickedCount * (clickedCount + 1)) / 2) / (clickedCount * otherCount);
}
