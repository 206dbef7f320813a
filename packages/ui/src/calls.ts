/** The calls of the page, by path. Each returns what is sent as JSON. */

import { CheckpointError, type CheckpointReference } from '@holdfast/core/contract';
import type { ChangeRequest, EventsView, FleetAnswer, RunAnswer, Session, VersionView } from './api.ts';
import { change } from './changes.ts';
import { type Fleet, SPARK_RUNS_MAX } from './fleet.ts';
import type { RunReader } from './run-reader.ts';
import type { Runs } from './runs.ts';
import { readDiff, readTensors, readVersion } from './version-view.ts';
import { isVersionFilter, PAGE_ROWS_MAX, VERSION_FILTERS } from './versions-page.ts';

/** What the command gives. The server adds what it finds out itself. */
export type UiSession = Omit<Session, 'home' | 'hasAgent'>;

export interface CallContext {
  readonly session: UiSession;
  /** Found out once. */
  readonly home: () => Promise<Session['home']>;
  readonly runs: Runs;
  readonly fleet: Fleet;
  /** `null`: no agent is shown. */
  readonly askAgent: (() => Promise<unknown>) | null;
  /** Ends with the request. */
  readonly signal: AbortSignal;
}

type ApiCall = (query: URLSearchParams, context: CallContext) => Promise<unknown>;

export const CALLS: Readonly<Record<string, ApiCall>> = {
  '/api/session': async (_, { session, home, askAgent }): Promise<Session> => ({
    ...session,
    home: await home(),
    hasAgent: askAgent !== null,
  }),
  '/api/runs': async (query, { fleet }): Promise<FleetAnswer> => {
    const view = await fleet.view();
    return query.get('since') === `${view.version}` ? { isUnchanged: true } : view;
  },
  '/api/agent': async (_, { askAgent }) => {
    if (askAgent === null)
      throw new CheckpointError('InvalidArgument', 'this page was not started for an agent');
    return askAgent();
  },
  '/api/sparks': async (query, { fleet, signal }) => {
    const uris = query.getAll('uri');
    if (uris.length > SPARK_RUNS_MAX)
      throw new CheckpointError('InvalidArgument', `uri: at most ${SPARK_RUNS_MAX} are accepted`);
    return fleet.sparks(uris, signal);
  },
  '/api/run': runAnswer,
  '/api/run/versions': async (query, context) =>
    (await readerOf(query, context)).versions({
      filter: filterOf(query),
      text: (query.get('text') ?? '').slice(0, 200),
      offset: wholeOf(query, 'offset', 0, Number.MAX_SAFE_INTEGER),
      limit: wholeOf(query, 'limit', PAGE_ROWS_MAX, PAGE_ROWS_MAX),
    }),
  '/api/run/events': async (query, context): Promise<EventsView> => {
    const view = await (await readerOf(query, context)).events();
    return { ...view, origin: view.origin && context.fleet.withUri(view.origin) };
  },
  '/api/run/goodput': async (query, context) => (await readerOf(query, context)).goodput(context.signal),
  '/api/version': async (query, context): Promise<VersionView> => {
    const reader = await readerOf(query, context);
    const facts = await readVersion(reader.manager, referenceOf(query, 'version', 'lineage'), context);
    return { ...facts, clockDifferenceMs: await reader.clockDifferenceMs(context.signal) };
  },
  '/api/version/tensors': async (query, context) =>
    readTensors((await readerOf(query, context)).manager, referenceOf(query, 'version', 'lineage'), context),
  '/api/version/diff': async (query, context) => {
    const before = referenceOf(query, 'before', 'beforeLineage');
    const after = referenceOf(query, 'after', 'afterLineage');
    return readDiff((await readerOf(query, context)).manager, { before, after }, context);
  },
};

/** The body of `POST /api/change`, as parsed. `Denied`: the command permits no changes. */
export async function changeCall(body: unknown, { session, runs, signal }: CallContext): Promise<unknown> {
  if (!session.mayChange)
    throw new CheckpointError('Denied', 'this page changes nothing: start it with --allow-changes');
  const request = body as Partial<ChangeRequest> | null;
  if (typeof request !== 'object' || request === null || typeof request.uri !== 'string')
    throw new CheckpointError('InvalidArgument', 'the body must be a JSON object with uri and action');
  return change(await runs.reader(request.uri), request as ChangeRequest, signal);
}

function referenceOf(query: URLSearchParams, name: string, lineageName: string): CheckpointReference {
  const version = query.get(name) ?? '';
  const lineage = query.get(lineageName) ?? '';
  if (!/^\d{1,19}$/.test(version) || !/^\d{0,9}$/.test(lineage))
    throw new CheckpointError(
      'InvalidArgument',
      `${name}: a version is accepted, with its lineage or without`,
    );
  return lineage === '' ? BigInt(version) : { version: BigInt(version), lineage: Number(lineage) };
}

/**
 * With `since`, the revision that the page knows: if it is still the present one, the answer is
 * short.
 */
async function runAnswer(query: URLSearchParams, context: CallContext): Promise<RunAnswer> {
  const view = await (await readerOf(query, context)).view();
  const isBusy = view.problem !== null || 'code' in view.begun || view.begun.length > 0;
  const isKnown = query.get('since') === view.revision && !isBusy;
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
