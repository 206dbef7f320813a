import {
  type CallOptions,
  type CheckpointManager,
  type CheckpointSummary,
  checkSome,
} from '@holdfast/core/contract';
import { aManager, SIGNAL } from '../rules.ts';
import { checkRanked, gain, measured, type RankedMetric, unknownMetric } from './metrics.ts';

/**
 * Ranks checkpoints by a metric, best first. Counts all that can be restored: live ones that no
 * rollback left behind. Checkpoints without the metric do not count; a metric may come from the
 * save or from a later annotation. If two are equal, the newer ranks higher, because it was trained
 * longer. Empty if there is no checkpoint at all. At most two requests.
 *
 * `InvalidArgument`: there are checkpoints but none has the metric (the message names the existing
 * metrics), or the mode is not valid.
 */
export async function rankCheckpoints(
  manager: CheckpointManager,
  ranked: RankedMetric,
  options: CallOptions = {},
): Promise<readonly CheckpointSummary[]> {
  aManager('manager', manager);
  checkRanked(ranked);
  checkSome(options, SIGNAL);
  const { metric, mode } = ranked;
  const candidates = (await manager.list({ signal: options.signal })).filter(
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
  // The list is newest first, and the sort is stable, so equal ones stay newest first.
  return measurements.sort((a, b) => gain(b.value, a.value, mode)).map(({ checkpoint }) => checkpoint);
}

/** The first of `rankCheckpoints`; `null` if there is no checkpoint at all. */
export async function bestCheckpoint(
  manager: CheckpointManager,
  ranked: RankedMetric,
  options: CallOptions = {},
): Promise<CheckpointSummary | null> {
  const [best] = await rankCheckpoints(manager, ranked, options);
  return best ?? null;
}
