/** The timeline as a table: who saved which versions, and how each attempt ended. */

import { h } from 'preact';
import type { AttemptSpan, EventRow, EventsView } from '../src/api.ts';
import { Text } from './parts.ts';
import { Table } from './table.ts';
import { count, shortAttempt, time } from './words.ts';

export function AttemptTable({
  attempts,
  events,
}: {
  attempts: readonly AttemptSpan[];
  events: EventsView | null;
}) {
  const starts = new Map(
    (events?.events ?? [])
      .filter(({ kind }) => kind === 'takeover' || kind === 'rollback')
      .map((event) => [`${event.lineage}.${event.epoch}`, event]),
  );
  const unknown = events === null || events.older === 'unread' ? 'not read' : 'not in the log';
  const rows = attempts.map((attempt, index) => ({
    attempt,
    start: starts.get(`${attempt.lineage}.${attempt.epoch}`),
    end: endOf(attempt, attempts[index + 1], starts),
  }));
  return h(
    'details',
    { class: 'as-table' },
    h('summary', null, 'The attempts as a table'),
    h(Table, {
      label: 'Attempts',
      titles: COLUMNS,
      rows: rows.map(({ attempt, start, end }) => [
        `${attempt.lineage}.${attempt.epoch}`,
        start ? h(Text, { text: shortAttempt(start.attempt || start.kind) }) : unknown,
        start ? h(Text, { text: start.process }) : unknown,
        `${attempt.firstVersion} to ${attempt.lastVersion}`,
        count(attempt.commitCount),
        time(attempt.firstCommitMs),
        time(attempt.lastCommitMs),
        h(Text, { text: end }),
      ]),
    }),
  );
}

const COLUMNS = [
  'Lineage.epoch',
  'Attempt',
  'Taken over by',
  'Versions',
  'Commits',
  'First commit',
  'Last commit',
  'End',
];

function endOf(
  attempt: AttemptSpan,
  next: AttemptSpan | undefined,
  starts: ReadonlyMap<string, EventRow>,
): string {
  if (next === undefined) return 'not replaced';
  const start = starts.get(`${next.lineage}.${next.epoch}`);
  const at = start ? ` at ${time(start.atMs)}` : '';
  if (next.lineage === attempt.lineage) return `fenced by attempt ${next.lineage}.${next.epoch}${at}`;
  return `left by a rollback${at}${start?.reason ? `: ${start.reason}` : ''}`;
}
