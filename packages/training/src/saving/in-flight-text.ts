/** Progress of a save as text. Pure. */

import type { SaveInFlight } from './saver.ts';

export function secondsText(ms: number): string {
  return `${Number((ms / 1000).toFixed(1))} s`;
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `2.1 of 12.0 GiB`: both in the unit of the total. A total of 0 means unknown. */
export function sharesText(doneBytes: number, totalBytes: number): string {
  const unit = Math.min(Math.floor(Math.log2(Math.max(1, totalBytes, doneBytes)) / 10), UNITS.length - 1);
  const figure = (bytes: number) => (bytes / 1024 ** unit).toFixed(unit === 0 ? 0 : 1);
  const whole = totalBytes === 0 ? '' : ` of ${figure(totalBytes)}`;
  return `${figure(doneBytes)}${whole} ${UNITS[unit]}`;
}

const WRITERS_NAMED_MAX = 8;

/** `writer 3`, `writers 1, 2 and 3`, `writers 0, 1, 2, 3, 4, 5, 6, 7 and 92 more`. */
export function writersText(writers: readonly number[]): string {
  const named = writers.slice(0, WRITERS_NAMED_MAX).map(String);
  const others = writers.length - named.length;
  const last = others > 0 ? `${others} more` : named.pop();
  if (named.length === 0) return `writer ${last}`;
  return `writers ${named.join(', ')} and ${last}`;
}

export function versionText(version: bigint | null): string {
  return version === null ? 'the next version' : `version ${version}`;
}

/** `2.1 of 12.0 GiB (17 %), at model.bin, writer 0 of 4, waiting for writers 2 and 3`. */
export function placeText(
  save: Pick<SaveInFlight, 'doneBytes' | 'totalBytes' | 'file' | 'writer' | 'missingWriters'>,
  isStaged: boolean,
): string {
  const { doneBytes, totalBytes, file, writer, missingWriters } = save;
  const parts = [`writer ${writer.index} of ${writer.count}`];
  if (!isStaged) return `it is still being copied, ${parts[0]}`;
  const share = totalBytes === 0 ? '' : ` (${Math.floor((100 * doneBytes) / totalBytes)} %)`;
  parts.unshift(`${sharesText(doneBytes, totalBytes)}${share}`);
  if (file !== null) parts.splice(1, 0, `at ${file}`);
  if (missingWriters.length > 0) parts.push(`waiting for ${writersText(missingWriters)}`);
  return parts.join(', ');
}
