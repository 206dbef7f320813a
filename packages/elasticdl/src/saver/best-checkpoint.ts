import type { CheckpointManager, CheckpointSummary } from '@holdfast/core/contract';
import { checkRanked, gain, measured, type RankedMetric, unknownMetric } from './metrics.ts';

/**
 * The best by a metric of all that can be restored: live, and not left behind by a rollback. Those that were saved without the metric do not
 * count; of equals the newer one is the better, for it has learnt more. `null`: there is no checkpoint at all. At most two requests.
 *
 * `InvalidArgument`: there are checkpoints, and none has the metric; the message names those that there are. Or the mode is none.
 */
export async function bestCheckpoint(
  manager: CheckpointManager,
  ranked: RankedMetric,
): Promise<CheckpointSummary | null> {
  checkRanked(ranked);
  const { metric, mode } = ranked;
  // Newest first, so that only a better one takes the place of one that was there before.
  const candidates = (await manager.list()).filter((each) => each.state === 'live' && !each.isLeftBehind);
  let best: { checkpoint: CheckpointSummary; value: number } | undefined;
  for (const checkpoint of candidates) {
    const value = measured(checkpoint.metrics, metric);
    if (value === undefined) continue;
    if (best === undefined || gain(value, best.value, mode) > 0) best = { checkpoint, value };
  }
  if (best) return best.checkpoint;
  if (candidates.length === 0) return null;
  throw unknownMetric(
    metric,
    'no checkpoint has',
    candidates.map(({ metrics }) => metrics),
  );
}
