/** The calls of the page, by path. Each returns what is sent as JSON. */

import { CheckpointError } from '@holdfast/core/contract';
import type { RunAnswer, Session } from './api.ts';
import type { RunReader } from './run-reader.ts';
import type { Runs } from './runs.ts';
import { isVersionFilter, PAGE_ROWS_MAX, VERSION_FILTERS } from './versions-page.ts';

export interface CallContext {
  readonly session: Session;
  readonly runs: Runs;
  /** Ends with the request. */
  readonly signal: AbortSignal;
}

type ApiCall = (query: URLSearchParams, context: CallContext) => Promise<unknown>;

export const CALLS: Readonly<Record<string, ApiCall>> = {
  '/api/session': async (_, { session }) => session,
  '/api/run': runAnswer,
  '/api/run/versions': async (query, context) =>
    (await readerOf(query, context)).versions({
      filter: filterOf(query),
      text: (query.get('text') ?? '').slice(0, 200),
      offset: wholeOf(query, 'offset', 0, Number.MAX_SAFE_INTEGER),
      limit: wholeOf(query, 'limit', PAGE_ROWS_MAX, PAGE_ROWS_MAX),
    }),
  '/api/run/events': async (query, context) => (await readerOf(query, context)).events(),
};

/**
 * With `since`, the number of the last decision that the page knows: if there is no newer one, the
 * answer is short.
 */
async function runAnswer(query: URLSearchParams, context: CallContext): Promise<RunAnswer> {
  const view = await (await readerOf(query, context)).view();
  const isBusy = view.problem !== null || 'code' in view.begun || view.begun.length > 0;
  const isKnown = query.get('since') === String(view.seq) && !isBusy;
  return isKnown ? { isUnchanged: true, readAtMs: view.readAtMs } : view;
}

function readerOf(query: URLSearchParams, { runs }: CallContext): Promise<RunReader> {
  const uri = query.get('uri');
  if (uri === null) throw new CheckpointError('InvalidArgument', 'the parameter uri is missing');
  return runs.reader(uri);
}

function filterOf(query: URLSearchParams) {
  const filter = query.get('filter') ?? 'all';
  if (isVersionFilter(filter)) return filter;
  throw new CheckpointError('InvalidArgument', `filter: one of ${VERSION_FILTERS.join(', ')} is accepted`);
}

function wholeOf(query: URLSearchParams, name: string, byDefault: number, max: number): number {
  const text = query.get(name);
  if (text === null) return byDefault;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value <= max) return value;
  throw new CheckpointError('InvalidArgument', `${name}: a whole number from 0 to ${max} is accepted`);
}
