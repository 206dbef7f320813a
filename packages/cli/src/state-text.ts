import type { CheckpointSummary } from '@holdfast/core/contract';
import { printable } from './format.ts';

/** What is special about a checkpoint: `latest, best loss, pinned: paper`. */
export function stateText(summary: CheckpointSummary, best: ReadonlyMap<string, CheckpointSummary>): string {
  const because = summary.reason === '' ? '' : `: ${printable(summary.reason)}`;
  return [
    ...(summary.isLatest ? ['latest'] : []),
    ...[...best].filter(([, each]) => each === summary).map(([name]) => `best ${printable(name)}`),
    ...summary.pins.map((label) => (label === '' ? 'pinned' : `pinned: ${printable(label)}`)),
    ...(summary.state === 'retiring' ? [`retiring${because}`] : []),
    ...(summary.state === 'quarantined' ? [`quarantined${because}`] : []),
    ...(summary.isSuspect ? ['suspect'] : []),
  ].join(', ');
}
