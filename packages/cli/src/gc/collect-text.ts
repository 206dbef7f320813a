/** Result of a collection, for people. Pure. */

import {
  type CollectResult,
  checkpointName,
  type Postponed,
  type SweepResult,
} from '@holdfast/core/contract';
import { formatBytes, formatCount, formatPlural, formatVersions, printable } from '../format.ts';
import type { Style } from '../style.ts';

const HELD_SHOWN_MAX = 10;

/**
 * First what waits, what the store kept, and what the bucket's settings mean; last what was done.
 */
export function collectText(result: CollectResult, style: Style): string {
  const { swept } = result;
  const { objectCount, uploadCount, leaseCount } = swept;
  const doneCount = result.retired.length + result.removed.length + objectCount + uploadCount + leaseCount;
  return [
    ...waitLines(result.postponed),
    ...heldLines(swept, style),
    ...swept.notes.map((note) => `note   ${printable(note)}`),
    doneCount === 0 ? 'nothing to collect' : doneLine(result, style),
  ].join('\n');
}

/** `retired 12, removed 9 (3 wait), deleted 1,034 objects, 108 GiB; 2 uploads stopped, 1.2 GiB`. */
function doneLine({ retired, removed, postponed, swept }: CollectResult, style: Style): string {
  const waiting =
    postponed.length > 0
      ? ` (${formatCount(postponed.length)} ${postponed.length === 1 ? 'waits' : 'wait'})`
      : '';
  const done = [
    `retired ${formatCount(retired.length)}`,
    `removed ${formatCount(removed.length)}${waiting}`,
    `deleted ${formatPlural(swept.objectCount, 'object')}, ${formatBytes(swept.freedBytes)}`,
  ].join(', ');
  const uploads =
    swept.uploadCount > 0
      ? `; ${formatPlural(swept.uploadCount, 'upload')} stopped, ${formatBytes(swept.uploadBytes)}`
      : '';
  const leases = swept.leaseCount > 0 ? `; ${formatPlural(swept.leaseCount, 'expired lease')} deleted` : '';
  return `${style('green', 'collected')}  ${done}${uploads}${leases}`;
}

function waitLines(postponed: readonly Postponed[]): string[] {
  const upwards = postponed.toSorted((a, b) => (a.version < b.version ? -1 : 1));
  const byReason = Map.groupBy(upwards, ({ reason }) => reason);
  return [...byReason].map(
    ([reason, each]) =>
      `waits  ${formatVersions(each.map(({ id, isLeftBehind }) => checkpointName(id, isLeftBehind)))}   ${printable(reason)}`,
  );
}

function heldLines({ held, heldCount }: SweepResult, style: Style): string[] {
  if (heldCount === 0) return [];
  const shown = held.slice(0, HELD_SHOWN_MAX);
  const more = heldCount - shown.length;
  return [
    ...shown.map(
      ({ key, reason }) => `${style('yellow', 'held')}   ${printable(key)}   ${printable(reason)}`,
    ),
    ...(more > 0 ? [`${style('yellow', 'held')}   ${formatPlural(more, 'object')} more`] : []),
  ];
}
