import type { CallOptions, CheckpointManager, CheckpointSummary } from '@holdfast/core/contract';
import { aManager } from '../rules.ts';
import { checkRanked, gain, measured, type RankedMetric, unknownMetric } from './metrics.ts';

/**
 * By a metric, best first: all that can be restored, that is live ones that no rollback left behind. Those that have no such
 * metric, from their save or annotated since, do not count; of equals the newer one is the better, for it has learnt more. Empty: there is no checkpoint at all. At most two
 * requests.
 *
 * `InvalidArgument`: there are checkpoints, and none has the metric; the message names those that there are. Or the mode is none.
 */
export async function rankCheckpoints(
  manager: CheckpointManager,
  ranked: RankedMetric,
  options: CallOptions = {},
): Promise<readonly CheckpointSummary[]> {
  aManager('manager', manager);
  checkRanked(ranked);
  const { metric, mode } = ranked;
  const candidates = (await manager.list(options)).filter(
    (each) => each.state === 'live' && !each.isLeftBehind,
  );
  const measurements = candidates.flatMap((checkpoint) => {
    const value = measured(checkpoint.metrics, metric);
    return value === undefined ? [] : [{ checkpoint, value }];
  });
  if (measurements.length === 0 && candidates.length > 0) {
    throw unknownMetric(
      metric,
      'no checkpoint has',
      candidates.map(({ metrics }) => metrics),
    );
  }
  // Newest first as they come, and sorting leaves equals in their order.
  return measurements.sort((a, b) => gain(b.value, a.value, mode)).map(({ checkpoint }) => checkpoint);
}

/** The first of `rankCheckpoints`. `null`: there is no checkpoint at all. */
export async function bestCheckpoint(
  manager: CheckpointManager,
  ranked: RankedMetric,
  options: CallOptions = {},
): Promise<CheckpointSummary | null> {
  const [best] = await rankCheckpoints(manager, ranked, options);
  return best ?? null;
}
