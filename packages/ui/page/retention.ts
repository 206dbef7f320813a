/** What retention does next, and why. */

import { h } from 'preact';
import type { RunView, VersionsPage } from '../src/api.ts';
import { useCall } from './live.ts';
import { Age, Facts, ProblemNote, Text, versionLink } from './parts.ts';
import { Table } from './table.ts';
import { verdictText } from './version-list.ts';
import { bytes, count, plural, time } from './words.ts';

const ROWS = 50;

export function Retention({ view }: { view: RunView }) {
  const { retention, uri, revision, clockDifferenceMs: aheadMs } = view;
  const query = { uri, filter: 'next', text: '', offset: 0, limit: ROWS };
  const next = useCall<VersionsPage>('/api/run/versions', query, { version: revision });
  if ('code' in retention) return h(ProblemNote, { error: retention });
  const { keep, retire, remove, wait } = retention.counts;
  return h(
    'div',
    null,
    h(Facts, {
      facts: [
        [
          'Rules',
          retention.hasRules ? h(Text, { text: retention.rules }) : 'no rules: every version is kept',
        ],
        ['Kept', plural(keep, 'version')],
        [
          'Going next',
          `${count(retire)} to retire, ${count(remove)} to remove, ${count(wait)} in their grace`,
        ],
        [
          'Frees',
          `${bytes(retention.droppedBytes)} of ${bytes(retention.totalBytes)}${retention.needsForce ? '. That is more than half, so a collection needs --force' : ''}`,
        ],
      ],
    }),
    next.data === null || next.data.total === 0
      ? h('p', { class: 'empty' }, 'No version goes next.')
      : h(Table, {
          label: 'Versions that go next',
          titles: ['Version', 'Committed', 'Stored', 'What happens, and why', 'Until'],
          rows: next.data.rows.map((row) => [
            h('a', { href: versionLink(uri, row) }, row.name),
            h(Age, { atMs: row.committedAtMs, aheadMs }),
            bytes(row.storedBytes),
            h(Text, { text: verdictText(row), max: 400 }),
            row.graceUntilMs === null ? '' : time(row.graceUntilMs),
          ]),
        }),
    next.data !== null && next.data.total > ROWS
      ? h(
          'p',
          { class: 'note' },
          `${count(next.data.total - ROWS)} more: choose "going next" in the list of versions.`,
        )
      : null,
  );
}
