/** The page of one version. */

import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { VersionView } from '../src/api.ts';
import { ChangeCard } from './change-card.ts';
import { DiffCard } from './diff-card.ts';
import { useCall } from './live.ts';
import {
  Age,
  badgesOf,
  Card,
  CopyLine,
  Facts,
  Loading,
  linkTo,
  ProblemNote,
  Text,
  versionLink,
} from './parts.ts';
import type { Query } from './source.ts';
import { More, Table } from './table.ts';
import { TensorsCard } from './tensors-card.ts';
import { bytes, clocksText, count, metric, plural, shellQuote, time } from './words.ts';

export interface VersionPageProps {
  readonly uri: string;
  readonly version: string;
  readonly lineage: string;
  readonly mayChange: boolean;
}

export function VersionPage({ uri, version, lineage, mayChange }: VersionPageProps) {
  const query: Query = { uri, version, ...(lineage !== '' && { lineage }) };
  const { data: view, error, reload } = useCall<VersionView>('/api/version', query);
  if (view === null) return error ? h(ProblemNote, { error }) : h(Loading, { what: 'the version' });
  return h(
    'div',
    { class: 'page' },
    h(
      'section',
      { class: 'card overview', 'aria-label': 'Overview' },
      h('p', { class: 'note' }, h('a', { href: linkTo('run', { uri }) }, h('bdi', null, uri))),
      h('h1', null, `Version ${view.row.name}`),
      h('p', { class: 'badges' }, badgesOf(view.row)),
      h(Facts, { facts: factsOf(view, uri) }),
    ),
    h(Commands, { view, uri }),
    mayChange ? h(ChangeCard, { uri, row: view.row, onDone: reload }) : null,
    h(Writers, { view }),
    h(Files, { view }),
    h(TensorsCard, { query }),
    h(DiffCard, { uri, row: view.row }),
  );
}

function factsOf(view: VersionView, uri: string) {
  const { row, metadata, commit, bases, manifestKey, writers, clockDifferenceMs: aheadMs } = view;
  const clocks = clocksText(aheadMs);
  const facts: [string, ComponentChildren][] = [
    ['Committed', [time(row.committedAtMs), ', ', h(Age, { atMs: row.committedAtMs, aheadMs })]],
    ...(clocks === null ? [] : [['Clocks', clocks] as [string, ComponentChildren]]),
    [
      'By',
      commit === null
        ? 'not known: the catalog no longer has the decision, or it is damaged'
        : h(Text, { text: commit.process }),
    ],
    ['Attempt', commit === null || commit.attempt === '' ? 'not known' : h(Text, { text: commit.attempt })],
    ['Lineage and epoch', `${row.lineage}.${row.epoch}`],
    ['Size', `${bytes(row.sizeBytes)} in ${plural(row.fileCount, 'file')}`],
    ['Stored for it', bytes(row.storedBytes)],
    ['Writers', count(writers.length)],
    [
      'Verified',
      row.isVerified ? 'every byte was read and matched' : 'not since its commit, as far as the catalog says',
    ],
    ...Object.entries(row.metrics).map(([name, value]): [string, ComponentChildren] => [
      name.slice(0, 100),
      metric(value),
    ]),
    ...Object.entries(metadata).map(([name, text]): [string, ComponentChildren] => [
      name.slice(0, 100),
      h(Text, { text }),
    ]),
    ...(row.reason === '' ? [] : [['Reason', h(Text, { text: row.reason })] as [string, ComponentChildren]]),
    ...(bases.length === 0
      ? []
      : [
          [
            'Shares files with',
            bases.map((base) => [
              h('a', { key: base.version, href: versionLink(uri, base) }, base.version),
              ' ',
            ]),
          ] as [string, ComponentChildren],
        ]),
    ['Manifest', h(Text, { text: manifestKey })],
  ];
  return facts;
}

function Commands({ view: { row }, uri }: { view: VersionView; uri: string }) {
  const run = shellQuote(uri);
  const named = row.name;
  const lines = [
    ['Restore', `holdfast restore ${run} restored --version ${named}`],
    ['Verify', `holdfast verify ${run} --version ${named}`],
    ['Pin', `holdfast pin ${run} --version ${named} --label keep`],
    ['Annotate', `holdfast annotate ${run} --version ${named} --metric NAME=VALUE`],
    ['Rollback', `holdfast rollback ${run} --to ${named} --reason TEXT`],
  ] as const;
  return h(
    Card,
    { id: 'commands', title: 'Commands' },
    lines
      .filter(([name]) => name !== 'Rollback' || (!row.isLatest && !row.isLeftBehind && row.state === 'live'))
      .map(([label, text]) => h(CopyLine, { key: label, label, text })),
  );
}

const ROWS = 100;

function Writers({ view: { writers } }: { view: VersionView }) {
  const [shown, setShown] = useState(ROWS);
  return h(
    Card,
    { id: 'writers', title: 'Writers' },
    h(Table, {
      label: 'Writers',
      titles: ['Writer', 'Files', 'Size', 'State', 'State taken'],
      rows: writers
        .slice(0, shown)
        .map(({ writer, fileCount, sizeBytes, consistency, takenAtMs }) => [
          String(writer),
          count(fileCount),
          bytes(sizeBytes),
          consistency ?? 'not reported',
          takenAtMs === null ? 'not reported' : `${time(takenAtMs)} by its clock`,
        ]),
    }),
    h(More, { shown, total: writers.length, onMore: () => setShown(shown + 1000) }),
  );
}

function Files({ view: { files, fileCount } }: { view: VersionView }) {
  const [shown, setShown] = useState(ROWS);
  const note =
    files.length < fileCount
      ? `The first ${count(files.length)} of ${plural(fileCount, 'file')}. holdfast show prints all.`
      : null;
  return h(
    Card,
    { id: 'files', title: 'Files', note },
    h(Table, {
      label: 'Files',
      titles: ['File', 'Size', 'Writer', 'CRC32C', 'Key'],
      rows: files
        .slice(0, shown)
        .map(({ name, sizeBytes, writer, crc32c, key }) => [
          h(Text, { text: name }),
          bytes(sizeBytes),
          String(writer),
          crc32c,
          h(Text, { text: key }),
        ]),
    }),
    h(More, { shown, total: files.length, onMore: () => setShown(shown + 1000) }),
  );
}
