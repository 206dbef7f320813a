/** The page of one run. */

import { type ComponentChildren, h } from 'preact';
import type { EventsView, RunAnswer, RunView } from '../src/api.ts';
import { AttemptTable } from './attempt-table.ts';
import { POLL_MS, useCall } from './live.ts';
import { Age, Badge, Card, Facts, Loading, ProblemNote, Text, versionLink } from './parts.ts';
import { Timeline } from './timeline.ts';
import { VersionList } from './version-list.ts';
import { bytes, count, plural, shortAttempt } from './words.ts';

export function RunPage({ uri }: { uri: string }) {
  const { data: view, error } = useRun(uri);
  const events = useCall<EventsView>(
    view === null ? null : '/api/run/events',
    { uri },
    { version: view?.seq },
  );
  if (view === null) return error ? h(ProblemNote, { error }) : h(Loading, { what: 'the run' });
  const problem = error ?? view.problem;
  return h(
    'div',
    { class: 'page' },
    problem ? h(ProblemNote, { error: problem, since: view.readAtMs }) : null,
    h(Overview, { view }),
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
          }),
      events.error ? h(ProblemNote, { error: events.error }) : null,
      h(AttemptTable, { attempts: view.attempts, events: events.data }),
    ),
    h(Card, { id: 'versions', title: 'Versions' }, h(VersionList, { uri, seq: view.seq })),
  );
}

/** Renewed while the page is visible; unchanged views are not sent again. */
export function useRun(uri: string) {
  return useCall<RunView>(
    '/api/run',
    { uri },
    {
      pollMs: POLL_MS,
      pollQuery: (before) => (before === null ? {} : { since: before.seq }),
      merge: (before, answer) => {
        const given: RunAnswer = answer;
        return 'isUnchanged' in given
          ? { ...(before as RunView), begun: [], problem: null, readAtMs: given.readAtMs }
          : given;
      },
    },
  );
}

function Overview({ view }: { view: RunView }) {
  const { latest, verified, counts } = view;
  const facts: [string, ComponentChildren][] = [
    [
      'Latest',
      latest === null
        ? 'no version that a restart would load'
        : [
            h('a', { href: versionLink(view.uri, latest) }, latest.name),
            ', ',
            h(Age, { atMs: latest.committedAtMs }),
          ],
    ],
    ['Versions', `${count(view.versionCount)}${countsText(counts)}`],
    ['Size of the latest', latest === null ? 'unknown' : bytes(latest.sizeBytes)],
    ['Stored', `${bytes(view.storedBytes)}, and ${bytes(view.referencedBytes)} shared`],
    [
      'Verified',
      verified === null
        ? 'no version in the catalog'
        : [
            h('a', { href: versionLink(view.uri, verified) }, verified.name),
            view.verifiedAtMs === null ? ', when is not known' : [', ', h(Age, { atMs: view.verifiedAtMs })],
          ],
    ],
    ['Attempt', [h(Text, { text: shortAttempt(view.attempt) }), `, ${plural(view.worldSize, 'writer')}`]],
    ['Takeovers', historyText(view)],
    ['Read', h(Age, { atMs: view.readAtMs })],
  ];
  return h(
    'section',
    { class: 'card overview', 'aria-label': 'Overview' },
    h('h1', null, h('bdi', null, view.uri)),
    h('p', { class: 'badges' }, healthBadges(view)),
    h(Facts, { facts }),
  );
}

function historyText({ history }: RunView): ComponentChildren {
  if (history === null) return 'not known: older entries cannot be read';
  const { attemptCount, fenceCount, sinceMs } = history;
  return [
    `${plural(attemptCount, 'attempt')}, ${plural(fenceCount, 'fence')} since `,
    h(Age, { atMs: sinceMs }),
  ];
}

function countsText(counts: RunView['counts']): string {
  const parts = [
    [counts.pinned, 'pinned'],
    [counts.retiring, 'retired'],
    [counts.quarantined, 'quarantined'],
    [counts.leftBehind, 'left behind'],
  ] as const;
  const shown = parts.filter(([number]) => number > 0).map(([number, what]) => `${count(number)} ${what}`);
  return shown.length === 0 ? '' : ` (${shown.join(', ')})`;
}

/** Facts only: what is damaged or in progress. Whether a run is late is for its owner to say. */
function healthBadges({ latest, counts, begun, versionCount }: RunView) {
  const saving = 'code' in begun ? [] : begun;
  const missing = saving.filter(({ worldSize, deliveredCount }) => deliveredCount < worldSize).length;
  return [
    latest === null && versionCount > 0
      ? h(Badge, { key: 'none', tone: 'bad', text: 'nothing to load' })
      : null,
    counts.quarantined > 0
      ? h(Badge, { key: 'q', tone: 'bad', text: `${count(counts.quarantined)} quarantined` })
      : null,
    saving.length > 0
      ? h(Badge, { key: 's', tone: 'accent', text: `${plural(saving.length, 'save')} begun` })
      : null,
    missing > 0 ? h(Badge, { key: 'm', tone: 'warn', text: 'writers missing' }) : null,
    latest !== null && counts.quarantined === 0
      ? h(Badge, { key: 'ok', tone: 'good', text: 'can be restored' })
      : null,
  ];
}

function timelineNote(view: RunView, events: EventsView | null): string {
  const shown =
    view.points.length < view.versionCount
      ? `${count(view.points.length)} of ${count(view.versionCount)} versions are drawn. `
      : '';
  const cut = events?.isCut
    ? 'The catalog no longer has the oldest decisions, so takeovers before the first mark are not drawn.'
    : '';
  return `${shown}Each line is one attempt, and each colour one lineage. Dashed lines were left behind by a rollback. ${cut}`;
}
