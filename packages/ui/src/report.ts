/** The page of a run as one file, with its data inside. */

import type { Clock, RunManager } from '@holdfast/core/contract';
import type { ReportData } from './api.ts';
import { RunReader } from './run-reader.ts';

/** A file of more versions would be slow to open. */
const ROWS_MAX = 20_000;
const DATA_MARK = '<!--holdfast-data-->';

export interface ReportOptions {
  readonly uri: string;
  /** The page, as `readPage` returns it. */
  readonly page: string;
  readonly programVersion: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Resolves to the HTML of the report: timeline, sizes, metrics, retention, saves in progress, the
 * newest 20,000 versions, goodput. Reads the run as its page does. `NotFound`: there is no run.
 */
export async function reportOf(
  manager: RunManager,
  { uri, page, programVersion, clock, signal }: ReportOptions,
): Promise<string> {
  const reader = new RunReader(manager, uri, clock);
  const { view: run, rows } = await reader.viewAndRows();
  const data: ReportData = {
    session: { programVersion, uris: [uri], mayChange: false, hasAgent: false, home: 'run' },
    madeAtMs: clock.nowMs(),
    run,
    events: await reader.events(),
    rows: rows.slice(0, ROWS_MAX),
    goodput: await reader.goodput(signal),
  };
  return pageWithData(page, data);
}

/** The page with the data of a report inside. */
export function pageWithData(page: string, data: ReportData): string {
  // No text inside can end the element, or begin a comment.
  const json = JSON.stringify(data).replaceAll('<', '\\u003c');
  const element = `<script type="application/json" id="holdfast-data">${json}</script>`;
  return page.replace(DATA_MARK, () => element);
}
