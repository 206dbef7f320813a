/**
 * The list of versions: filters, and one page of the result. Pure. A report filters its rows in the
 * browser with the same code.
 */

import type { VersionFilter, VersionRow, VersionsPage } from './api.ts';

/** Rows of one answer at most. */
export const PAGE_ROWS_MAX = 200;

const FILTERS: Readonly<Record<VersionFilter, (row: VersionRow) => boolean>> = {
  all: () => true,
  pinned: ({ pins }) => pins.length > 0,
  verified: ({ isVerified }) => isVerified,
  next: ({ verdict }) => verdict !== null && verdict !== 'keep',
  'left-behind': ({ isLeftBehind }) => isLeftBehind,
  retiring: ({ state }) => state === 'retiring',
  quarantined: ({ state }) => state === 'quarantined',
};

export const VERSION_FILTERS = Object.keys(FILTERS) as readonly VersionFilter[];

export function isVersionFilter(text: string): text is VersionFilter {
  return Object.hasOwn(FILTERS, text);
}

export interface PageQuery {
  readonly filter: VersionFilter;
  /** A part of a version, of a label or of a metric's name; empty: all. */
  readonly text: string;
  readonly offset: number;
  /** At most `PAGE_ROWS_MAX`. */
  readonly limit: number;
}

/** Whether the newest `PAGE_ROWS_MAX` versions are enough to answer it. */
export function isOfNewest({ filter, text, offset, limit }: PageQuery): boolean {
  return filter === 'all' && text === '' && offset + limit <= PAGE_ROWS_MAX;
}

export function versionsPage(
  rows: readonly VersionRow[],
  { filter, text, offset, limit }: PageQuery,
): VersionsPage {
  const matching = rows.filter((row) => FILTERS[filter](row) && hasText(row, text));
  return { total: matching.length, offset, rows: matching.slice(offset, offset + limit) };
}

function hasText({ version, pins, metrics }: VersionRow, text: string): boolean {
  if (text === '') return true;
  const wanted = text.toLowerCase();
  return [version, ...pins, ...Object.keys(metrics)].some((part) => part.toLowerCase().includes(wanted));
}
