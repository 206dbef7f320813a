import { type CheckpointId, type CheckpointSummary, checkpointName } from '@holdfast/core/contract';
import { formatAge, formatBytes, formatCount, formatMetrics, formatPlural } from './format.ts';
import { stateText } from './state-text.ts';
import type { Style } from './style.ts';
import { type Column, renderTable } from './table.ts';

export interface ListTextOptions {
  readonly nowMs: number;
  readonly best: ReadonlyMap<string, CheckpointSummary>;
  readonly style: Style;
}

/**
 * A table of the checkpoints of a run, and their totals. If a checkpoint shares files with earlier
 * ones, a column shows the bytes that were sent for each checkpoint itself.
 */
export function listText(summaries: readonly CheckpointSummary[], options: ListTextOptions): string {
  if (summaries.length === 0) return 'no checkpoint yet';
  const isShared = summaries.some((each) => each.storedBytes !== each.sizeBytes);
  const columns: (Column & { of: (each: CheckpointSummary) => string })[] = [
    { title: 'VERSION', align: 'right', of: (each) => checkpointName(each.id, each.isLeftBehind) },
    { title: 'COMMITTED', align: 'left', of: (each) => formatAge(each.committedAtMs, options.nowMs) },
    { title: 'FILES', align: 'right', of: (each) => formatCount(each.fileCount) },
    { title: 'SIZE', align: 'right', of: (each) => formatBytes(each.sizeBytes) },
    ...(isShared
      ? [
          {
            title: 'STORED',
            align: 'right' as const,
            of: (each: CheckpointSummary) => formatBytes(each.storedBytes),
          },
        ]
      : []),
    { title: 'METRICS', align: 'left', of: (each) => formatMetrics(each.metrics) },
    { title: 'STATE', align: 'left', of: (each) => stateText(each, options.best, true) },
  ];
  const rows = summaries.map((each) => columns.map(({ of }) => of(each)));
  const [titles, ...lines] = renderTable(columns, rows);
  return [options.style('bold', titles as string), ...lines, footer(summaries, isShared)].join('\n');
}

function footer(summaries: readonly CheckpointSummary[], isShared: boolean): string {
  const total = (of: (each: CheckpointSummary) => number) =>
    formatBytes(summaries.reduce((sum, each) => sum + of(each), 0));
  const atLeast = sharesWithRemoved(summaries) ? 'at least ' : '';
  const stored = isShared ? `, ${atLeast}${total((each) => each.storedBytes)} stored` : '';
  return `${formatPlural(summaries.length, 'version')} · ${total((each) => each.sizeBytes)}${stored}`;
}

/**
 * True if a listed version shares objects of a version that is no longer listed. The total of
 * stored bytes does not count these objects.
 */
function sharesWithRemoved(summaries: readonly CheckpointSummary[]): boolean {
  const nameOf = ({ lineage, epoch, version }: CheckpointId) => `${lineage}.${epoch}.${version}`;
  const there = new Set(summaries.map(({ id }) => nameOf(id)));
  return summaries.some(({ bases }) => bases.some((base) => !there.has(nameOf(base))));
}
