/** The page of one run. */

import { h } from 'preact';
import type { EventsView, RunAnswer, RunView, VersionsPage } from '../src/api.ts';
import { AttemptTable } from './attempt-table.ts';
import { ChangeForm } from './change-card.ts';
import { MetricChart, SizeChart } from './charts.ts';
import { POLL_MS, useCall, useSource } from './live.ts';
import { Overview } from './overview.ts';
import { Age, Card, Facts, Loading, ProblemNote } from './parts.ts';
import { Retention } from './retention.ts';
import { SavesInProgress } from './saves.ts';
import type { CallError } from './source.ts';
import { Timeline } from './timeline.ts';
import { VersionList, type VersionListProps } from './version-list.ts';
import { count, plural } from './words.ts';

export function RunPage({ uri, mayChange }: { uri: string; mayChange: boolean }) {
  const newest = useCall<VersionsPage>('/api/run/versions', { uri, limit: 1 });
  // The server is busy while it reads a long run, so the newest versions come first.
  const isFirstKnown = newest.data !== null || newest.error !== null;
  const { data: view, error, reload } = useRun(uri, isFirstKnown);
  const events = useCall<EventsView>(
    view === null ? null : '/api/run/events',
    { uri },
    { version: view?.seq },
  );
  if (view === null) return h(FirstPage, { uri, newest: newest.data, error });
  const problem = error ?? view.problem;
  return h(
    'div',
    { class: 'page' },
    problem ? h(ProblemNote, { error: problem, since: view.readAtMs }) : null,
    h(Overview, { view, events: events.data }),
    h(
      Card,
      { id: 'timeline', title: 'Timeline', note: timelineNote(view, events.data) },
      view.points.length === 0
        ? h('p', { class: 'empty' }, 'No version is committed yet.')
        : h(Timeline, {
            uri,
            points: view.points,
            attempts: view.attempts,
            events: events.data?.events ?? [],
            origin: events.data?.origin ?? null,
          }),
      events.error ? h(ProblemNote, { error: events.error }) : null,
      h(AttemptTable, { attempts: view.attempts, events: events.data }),
    ),
    h(
      Card,
      {
        id: 'saves',
        title: 'Saves in progress',
        note: 'From the store alone: it shows a file once it has arrived whole.',
      },
      h(SavesInProgress, { begun: view.begun }),
    ),
    h(
      'div',
      { class: 'two' },
      h(Card, { id: 'sizes', title: 'Size' }, h(SizeChart, { points: view.points })),
      view.metricNames.length === 0
        ? null
        : h(
            Card,
            { id: 'metrics', title: 'Metrics' },
            h(MetricChart, { points: view.points, names: view.metricNames, best: view.best }),
          ),
    ),
    h(
      Card,
      { id: 'retention', title: 'Retention' },
      h(Retention, { view }),
      mayChange
        ? h(ChangeForm, {
            title: 'Apply the rules',
            request: { uri, action: 'retire' },
            fields: [['reason', 'Reason']],
            onDone: reload,
          })
        : null,
    ),
    h(Versions, { key: 'versions', uri, revision: view.revision, aheadMs: view.clockDifferenceMs }),
  );
}

interface FirstPageProps {
  readonly uri: string;
  readonly newest: VersionsPage | null;
  readonly error: CallError | null;
}

/** Until the whole run is read: the newest versions, which need one small read. */
function FirstPage({ uri, newest, error }: FirstPageProps) {
  if (error) return h(ProblemNote, { error });
  const [row] = newest?.rows ?? [];
  return h(
    'div',
    { class: 'page' },
    h(
      'section',
      { class: 'card overview', 'aria-label': 'Overview' },
      h('h1', null, h('bdi', null, uri)),
      newest
        ? h(Facts, {
            facts: [
              ['Newest', row ? [row.name, ', ', h(Age, { atMs: row.committedAtMs })] : 'no version'],
              ['Versions', count(newest.total)],
            ],
          })
        : null,
    ),
    h(
      Card,
      { id: 'timeline', title: 'Timeline' },
      h('div', { class: 'picture-room' }, h(Loading, { what: 'all versions' })),
    ),
    h(Versions, { key: 'versions', uri, revision: null, aheadMs: 0 }),
  );
}

function Versions(props: VersionListProps) {
  const { report } = useSource();
  const note =
    report !== null && report.rows.length < report.run.versionCount
      ? `This report has the newest ${count(report.rows.length)} of ${plural(report.run.versionCount, 'version')}.`
      : null;
  return h(Card, { id: 'versions', title: 'Versions', note }, h(VersionList, props));
}

/** Renewed while the page is visible; unchanged views are not sent again. */
function useRun(uri: string, isAsked: boolean) {
  return useCall<RunView>(
    isAsked ? '/api/run' : null,
    { uri },
    {
      pollMs: POLL_MS,
      pollQuery: (before) => (before === null ? {} : { since: before.revision }),
      merge: (before, answer) => {
        const given: RunAnswer = answer;
        return 'isUnchanged' in given
          ? { ...(before as RunView), begun: [], problem: null, readAtMs: given.readAtMs }
          : given;
      },
    },
  );
}

function timelineNote(view: RunView, events: EventsView | null): string {
  const shown =
    view.points.length < view.versionCount
      ? `${count(view.points.length)} of ${count(view.versionCount)} versions are drawn. `
      : '';
  const cut = events === null ? '' : CUT[events.older](count(events.events.length));
  return `${shown}Each line is one attempt, and each colour one lineage. Dashed lines were left behind by a rollback. ${cut}`;
}

const CUT: Readonly<Record<EventsView['older'], (number: string) => string>> = {
  none: () => '',
  unread: (number) => `Only the newest ${number} decisions were read, so older takeovers are not drawn.`,
  deleted: () => 'The catalog no longer has the oldest decisions, so their takeovers are not drawn.',
};
