/** The difference between this version and another one that is chosen. */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { DiffView, VersionRow, VersionsPage } from '../src/api.ts';
import { useCall } from './live.ts';
import { Card, Loading, ProblemNote, Text } from './parts.ts';
import { Table } from './table.ts';
import { bytes, count, plural } from './words.ts';

export function DiffCard({ uri, row }: { uri: string; row: VersionRow }) {
  const [other, setOther] = useState('');
  const list = useCall<VersionsPage>('/api/run/versions', {
    uri,
    filter: 'all',
    text: '',
    offset: 0,
    limit: 200,
  });
  const [version = '', lineage = ''] = other.split('@');
  const query = {
    uri,
    before: version,
    beforeLineage: lineage,
    after: row.version,
    afterLineage: row.lineage,
  };
  const diff = useCall<DiffView>(other === '' ? null : '/api/version/diff', query);
  const choices = (list.data?.rows ?? []).filter(
    (each) => each.version !== row.version || each.lineage !== row.lineage,
  );
  return h(
    Card,
    { id: 'diff', title: 'Difference to another version' },
    h(
      'div',
      { class: 'controls' },
      h(
        'label',
        null,
        'Compare with ',
        h(
          'select',
          {
            value: other,
            onChange: (event: Event) => setOther((event.currentTarget as HTMLSelectElement).value),
          },
          h('option', { value: '' }, 'choose a version'),
          choices.map((each) =>
            h(
              'option',
              { key: `${each.version}@${each.lineage}`, value: `${each.version}@${each.lineage}` },
              each.name,
            ),
          ),
        ),
      ),
    ),
    h(Unoffered, { list: list.data }),
    diff.error ? h(ProblemNote, { error: diff.error }) : null,
    other !== '' && diff.data === null && diff.error === null ? h(Loading, { what: 'both versions' }) : null,
    diff.data ? h(Difference, { diff: diff.data }) : null,
  );
}

function Unoffered({ list }: { list: VersionsPage | null }) {
  if (list === null || list.total <= list.rows.length) return null;
  const text = `Only the newest ${count(list.rows.length)} of ${plural(list.total, 'version')} are offered. holdfast diff compares any two.`;
  return h('p', { class: 'note' }, text);
}

function Difference({ diff: { counts, files, bytesRead } }: { diff: DiffView }) {
  const sizeOf = (size: number | null) => (size === null ? 'not there' : bytes(size));
  const differing = counts.changed + counts.added + counts.removed;
  return h(
    'div',
    null,
    h(
      'p',
      null,
      `${count(counts.changed)} changed, ${count(counts.added)} added, ${count(counts.removed)} removed, ${count(counts.same)} the same. ${bytes(bytesRead)} of headers were read.`,
    ),
    files.length === 0
      ? null
      : h(Table, {
          label: 'Files that differ',
          titles: ['File', 'Change', 'Before', 'After', 'Tensors'],
          rows: files.map(({ name, change, beforeBytes, afterBytes, tensors, note }) => [
            h(Text, { text: name }),
            change,
            sizeOf(beforeBytes),
            sizeOf(afterBytes),
            h(Text, { text: [...tensors, note].filter((part) => part !== '').join('; '), max: 600 }),
          ]),
        }),
    differing > files.length
      ? h(
          'p',
          { class: 'note' },
          `The first ${count(files.length)} of ${plural(differing, 'file')} that differ. holdfast diff prints all.`,
        )
      : null,
  );
}
