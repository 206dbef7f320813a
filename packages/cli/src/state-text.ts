import type { CheckpointSummary } from '@holdfast/core/contract';
import { formatRoughDuration, printable } from './format.ts';

/**
 * Notable facts about a checkpoint: `latest, best loss, pinned: paper`. `isBrief`: without reasons;
 * for a retired one, only how long it can be undeleted.
 */
export function stateText(
  summary: CheckpointSummary,
  best: ReadonlyMap<string, CheckpointSummary>,
  isBrief = false,
): string {
  const because = summary.reason === '' ? '' : `: ${printable(summary.reason)}`;
  const suspect = summary.state === 'live' && !isBrief ? `suspect${because}` : 'suspect';
  return [
    ...(summary.isLatest ? ['latest'] : []),
    ...[...best].filter(([, each]) => each === summary).map(([name]) => `best ${printable(name)}`),
    ...summary.pins.map((label) =>
      label === '' || label === 'pinned' ? 'pinned' : `pinned: ${printable(label)}`,
    ),
    ...(summary.isVerified ? ['verified'] : []),
    ...(summary.isLeftBehind ? ['left behind'] : []),
    ...(summary.state === 'retiring' ? [`retiring${(isBrief ? graceText(summary) : null) ?? because}`] : []),
    ...(summary.state === 'quarantined' ? [`quarantined${because}`] : []),
    ...(summary.isSuspect ? [suspect] : []),
  ].join(', ');
}

function graceText({ graceLeftMs }: CheckpointSummary): string | null {
  if (graceLeftMs === null) return null;
  return graceLeftMs === 0 ? ' (its grace is over)' : ` (${formatRoughDuration(graceLeftMs)} left)`;
}
