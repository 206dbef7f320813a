import type { CheckpointSummary } from '@holdfast/core/contract';
import { formatRoughDuration, printable } from './format.ts';

/** How long a retired checkpoint can be taken back, and now. */
export interface Grace {
  readonly graceMs: number;
  readonly nowMs: number;
}

/** What is special about a checkpoint: `latest, best loss, pinned: paper`. `grace`: in brief, and of a retired one how long instead of why. */
export function stateText(
  summary: CheckpointSummary,
  best: ReadonlyMap<string, CheckpointSummary>,
  grace?: Grace,
): string {
  const because = summary.reason === '' ? '' : `: ${printable(summary.reason)}`;
  const suspect = summary.state === 'live' && grace === undefined ? `suspect${because}` : 'suspect';
  return [
    ...(summary.isLatest ? ['latest'] : []),
    ...[...best].filter(([, each]) => each === summary).map(([name]) => `best ${printable(name)}`),
    ...summary.pins.map((label) =>
      label === '' || label === 'pinned' ? 'pinned' : `pinned: ${printable(label)}`,
    ),
    ...(summary.isVerified ? ['verified'] : []),
    ...(summary.isLeftBehind ? ['left behind'] : []),
    ...(summary.state === 'retiring' ? [`retiring${graceText(summary, grace) ?? because}`] : []),
    ...(summary.state === 'quarantined' ? [`quarantined${because}`] : []),
    ...(summary.isSuspect ? [suspect] : []),
  ].join(', ');
}

function graceText({ retiringAtMs }: CheckpointSummary, grace: Grace | undefined): string | null {
  if (retiringAtMs === null || grace === undefined) return null;
  const leftMs = retiringAtMs + grace.graceMs - grace.nowMs;
  return leftMs <= 0 ? ' (its grace is over)' : ` (${formatRoughDuration(leftMs)} left)`;
}
