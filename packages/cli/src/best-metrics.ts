import type { CheckpointSummary } from '@holdfast/core/contract';

// Only names whose better direction is obvious: a wrong guess would mislead.
const SMALLER_IS_BETTER = /(^|[_\-./])(loss|error|err|perplexity|ppl|mse|rmse|mae|wer|cer)$/i;
const LARGER_IS_BETTER = /(^|[_\-./])(acc|accuracy|auc|f1|bleu|map|miou|precision|recall)$/i;

/**
 * Maps a metric name to its best checkpoint, for metrics with an obvious direction that at least
 * two live checkpoints have.
 */
export function bestMetrics(summaries: readonly CheckpointSummary[]): ReadonlyMap<string, CheckpointSummary> {
  const best = new Map<string, CheckpointSummary>();
  const live = summaries.filter((each) => each.state === 'live' && !each.isSuspect);
  for (const name of new Set(live.flatMap((each) => Object.keys(each.metrics)))) {
    const sign = SMALLER_IS_BETTER.test(name) ? 1 : LARGER_IS_BETTER.test(name) ? -1 : 0;
    const having = live.filter((each) => Object.hasOwn(each.metrics, name));
    if (sign === 0 || having.length < 2) continue;
    const rank = (each: CheckpointSummary) => sign * (each.metrics[name] as number);
    best.set(
      name,
      having.reduce((a, b) => (rank(b) < rank(a) ? b : a)),
    );
  }
  return best;
}
