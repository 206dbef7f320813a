import type { CheckpointSummary } from '@holdfast/core/contract';
import { formatRoughDuration, printable } from './format.ts';

/** What is special about a checkpoint: `latest, best loss, pinned: paper`. `nowMs`: in brief, and of a retired one how long instead of why. */
export function stateText(
  summary: CheckpointSummary,
  best: ReadonlyMap<string, CheckpointSummary>,
  nowMs?: number,
): string {
  const because = summary.reason === '' ? '' : `: ${printable(summary.reason)}`;
  const suspect = summary.state === 'live' && nowMs === undefined ? `suspect${because}` : 'suspect';
  return [
    ...(summary.isLatest ? ['latest'] : []),
    ...[...best].filter(([, each]) => each === summary).map(([name]) => `best ${printable(name)}`),
    ...summary.pins.map((label) =>
      label === '' || label === 'pinned' ? 'pinned' : `pinned: ${printable(label)}`,
    ),
    ...(summary.isVerified ? ['verified'] : []),
    ...(summary.isLeftBehind ? ['left behind'] : []),
    ...(summary.state === 'retiring' ? [`retiring${graceText(summary, nowMs) ?? because}`] : []),
    ...(summary.state === 'quarantined' ? [`quarantined${because}`] : []),
    ...(summary.isSuspect ? [suspect] : []),
  ].join(', ');
}

function graceText({ graceUntilMs }: CheckpointSummary, nowMs: number | undefined): string | null {
  if (graceUntilMs === null || nowMs === undefined) return null;
  const leftMs = graceUntilMs - nowMs;
  return leftMs <= 0 ? ' (its grace is over)' : ` (${formatRoughDuration(leftMs)} left)`;
}
