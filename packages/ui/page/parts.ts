/** Small parts that several pages use. */

import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { Point, RowId, VersionRow } from '../src/api.ts';
import { useNow } from './live.ts';
import type { CallError, Query } from './source.ts';
import { age, time } from './words.ts';

/** The address of a page inside this one. */
export function linkTo(page: string, query: Query): string {
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  return `#/${page}?${search}`;
}

export function versionLink(uri: string, { version, lineage }: RowId): string {
  return linkTo('version', { uri, version, lineage });
}

export function Card(props: {
  readonly title: string;
  readonly id: string;
  readonly note?: ComponentChildren;
  /** The heading of the whole page. */
  readonly isMain?: boolean;
  readonly children?: ComponentChildren;
}) {
  const heading = `${props.id}-title`;
  return h(
    'section',
    { class: 'card', id: props.id, 'aria-labelledby': heading },
    h(props.isMain ? 'h1' : 'h2', { id: heading }, props.title),
    props.note ? h('p', { class: 'note' }, props.note) : null,
    props.children,
  );
}

export type Tone = 'good' | 'warn' | 'bad' | 'plain' | 'accent';

export function Badge({ tone, text, title }: { tone: Tone; text: string; title?: string }) {
  return h('span', { class: `badge ${tone}`, title }, text);
}

export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return h(
    'dl',
    { class: 'facts' },
    facts.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))),
  );
}

/**
 * An age with its time as a title. It stays true while the page is open. `aheadMs`: the clock that
 * has stamped the time, minus the server's.
 */
export function Age({ atMs, aheadMs = 0 }: { atMs: number; aheadMs?: number }) {
  const now = useNow();
  return h('time', { title: time(atMs) }, age(atMs, now + aheadMs));
}

/** A text that may come from any writer: isolated, so that right-to-left names do not spread. */
export function Text({ text, max = 200 }: { text: string; max?: number }) {
  const isLong = text.length > max;
  return h(
    'bdi',
    { class: 'text', title: isLong ? text.slice(0, 4096) : undefined },
    isLong ? `${text.slice(0, max)}…` : text,
  );
}

export function ProblemNote({
  error,
  since,
}: {
  error: Pick<CallError, 'code' | 'message'>;
  since?: number | null;
}) {
  return h(
    'div',
    { class: 'problem', role: 'alert' },
    h('strong', null, error.code),
    ' ',
    h(Text, { text: error.message, max: 600 }),
    since ? h('span', null, ' Shown: what was known ', h(Age, { atMs: since }), '.') : null,
  );
}

export function Loading({ what }: { what: string }) {
  return h('p', { class: 'loading', role: 'status' }, `Reading ${what} …`);
}

export function CopyLine({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return h(
    'div',
    { class: 'copy' },
    h('span', { class: 'copy-label' }, label),
    h('code', { tabIndex: 0, role: 'textbox', 'aria-readonly': 'true', 'aria-label': label }, text),
    h(
      'button',
      { type: 'button', onClick: () => void copy().catch(() => undefined), 'aria-label': `Copy: ${label}` },
      isCopied ? 'Copied' : 'Copy',
    ),
  );
}

/** The states of a checkpoint as badges. */
export function badgesOf(row: VersionRow) {
  return [
    row.isLatest ? h(Badge, { key: 'latest', tone: 'accent', text: 'latest' }) : null,
    row.state === 'quarantined'
      ? h(Badge, { key: 'state', tone: 'bad', text: 'quarantined', title: row.reason })
      : null,
    row.state === 'retiring' ? h(Badge, { key: 'state', tone: 'warn', text: 'retired' }) : null,
    row.isLeftBehind ? h(Badge, { key: 'left', tone: 'plain', text: 'left behind' }) : null,
    row.isSuspect ? h(Badge, { key: 'suspect', tone: 'warn', text: 'suspect', title: row.reason }) : null,
    row.isVerified ? h(Badge, { key: 'verified', tone: 'good', text: 'verified' }) : null,
    ...row.pins.map((pin) =>
      h(Badge, { key: `pin ${pin}`, tone: 'accent', text: `pinned: ${pin.slice(0, 40)}`, title: pin }),
    ),
  ];
}

/** The same as words, for a point of a picture. */
export function badgeText(point: Point): string[] {
  return [
    ...(point.isLatest ? ['latest'] : []),
    ...(point.state === 'live' ? [] : [point.state === 'retiring' ? 'retired' : 'quarantined']),
    ...(point.isLeftBehind ? ['left behind'] : []),
    ...(point.isVerified ? ['verified'] : []),
    ...(point.isPinned ? ['pinned'] : []),
  ];
}
