/** The difference between this version and another one that is chosen. */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { DiffView, VersionRow, VersionsPage } from '../src/api.ts';
import { useCall } from './live.ts';
import { Card, Loading, ProblemNote, Text } from './parts.ts';
import { Table } from './table.ts';
import { bytes, count } from './words.ts';

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
    diff.error ? h(ProblemNote, { error: diff.error }) : null,
    other !== '' && diff.data === null && diff.error === null ? h(Loading, { what: 'both versions' }) : null,
    diff.data ? h(Difference, { diff: diff.data }) : null,
  );
}

function Difference({ diff: { counts, files, bytesRead } }: { diff: DiffView }) {
  const sizeOf = (size: number | null) => (size === null ? 'not there' : bytes(size));
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
  );
}
