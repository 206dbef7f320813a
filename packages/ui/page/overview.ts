/** The first card of the page of a run: its state in a few facts. */

import { type ComponentChildren, h } from 'preact';
import type { EventRow, EventsView, RunView, VersionRow } from '../src/api.ts';
import { useNow } from './live.ts';
import { Age, Badge, Facts, Text, versionLink } from './parts.ts';
import { bytes, clocksText, count, duration, plural, shortAttempt } from './words.ts';

const DAY_MS = 24 * 60 * 60_000;

export function Overview({ view, events }: { view: RunView; events: EventsView | null }) {
  const { latest, counts, clockDifferenceMs } = view;
  const clocks = clocksText(clockDifferenceMs);
  const facts: [string, ComponentChildren][] = [
    [
      'Latest',
      latest === null
        ? 'no version that a restart would load'
        : [
            h('a', { href: versionLink(view.uri, latest) }, latest.name),
            ', ',
            h(Age, { atMs: latest.committedAtMs, aheadMs: clockDifferenceMs }),
          ],
    ],
    ['Versions', `${count(view.versionCount)}${countsText(counts)}`],
    ['Size of the latest', latest === null ? 'unknown' : bytes(latest.sizeBytes)],
    ['Stored', `${bytes(view.storedBytes)}, and ${bytes(view.referencedBytes)} shared`],
    ['Verified', verifiedText(view, events)],
    ['Attempt', [h(Text, { text: shortAttempt(view.attempt) }), `, ${plural(view.worldSize, 'writer')}`]],
    ['Takeovers', h(TakeoversOfDay, { events })],
    ['Read', h(Age, { atMs: view.readAtMs })],
    ...(clocks === null ? [] : [['Clocks', clocks] as [string, ComponentChildren]]),
  ];
  return h(
    'section',
    { class: 'card overview', 'aria-label': 'Overview' },
    h('h1', null, h('bdi', null, view.uri)),
    h('p', { class: 'badges' }, healthBadges(view)),
    h(Facts, { facts }),
  );
}

/** Attempts of the last day, as far back as the log goes. */
function TakeoversOfDay({ events }: { events: EventsView | null }) {
  const now = useNow();
  if (events === null) return h('span', null, 'not read yet');
  const oldestMs = events.events.at(-1)?.atMs ?? now;
  const isWhole = events.older === 'none' || oldestMs <= now - DAY_MS;
  const recent = events.events.filter(({ atMs }) => atMs > now - DAY_MS);
  const countOf = (kind: string) => recent.filter((event) => event.kind === kind).length;
  const text = `${plural(countOf('takeover'), 'new attempt')}, ${plural(countOf('rollback'), 'rollback')} in the last `;
  return h('span', null, text, isWhole ? 'day' : `${duration(now - oldestMs)}, as far as the log was read`);
}

function verifiedEvent(verified: VersionRow, events: EventsView | null): EventRow | undefined {
  const names = [verified.version, `${verified.version}@${verified.lineage}`];
  return events?.events.findLast(
    ({ kind, checkpoints }) => kind === 'verify' && checkpoints.some((name) => names.includes(name)),
  );
}

function verifiedText(view: RunView, events: EventsView | null): ComponentChildren {
  const { verified, uri } = view;
  if (verified === null) return 'no version in the catalog';
  const event = verifiedEvent(verified, events);
  const when = event === undefined ? `, ${unknownWhen(events)}` : [', ', h(Age, { atMs: event.atMs })];
  return [h('a', { href: versionLink(uri, verified) }, verified.name), when];
}

function unknownWhen(events: EventsView | null): string {
  if (events === null) return 'when is not read yet';
  if (events.older !== 'unread') return 'when is no longer in the log';
  return `before the newest ${count(events.events.length)} decisions, which were read`;
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
      ? h(Badge, { key: 'ok', tone: 'good', text: 'has a version to restore' })
      : null,
  ];
}
