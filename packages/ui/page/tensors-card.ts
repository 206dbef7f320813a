/** The tensors of a version. They are read on request, because each file costs a read. */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { TensorsView } from '../src/api.ts';
import { useCall } from './live.ts';
import { Card, Facts, Loading, ProblemNote, Text } from './parts.ts';
import type { Query } from './source.ts';
import { More, Table } from './table.ts';
import { bytes, count, plural } from './words.ts';

const ROWS = 100;

export function TensorsCard({ query }: { query: Query }) {
  const [isAsked, setAsked] = useState(false);
  const { data, error } = useCall<TensorsView>(isAsked ? '/api/version/tensors' : null, query);
  return h(
    Card,
    {
      id: 'tensors',
      title: 'Tensors',
      note: 'From the headers of safetensors files and of .metadata. No values are read.',
    },
    isAsked ? null : h('button', { type: 'button', onClick: () => setAsked(true) }, 'Read the headers'),
    error ? h(ProblemNote, { error }) : null,
    isAsked && data === null && error === null ? h(Loading, { what: 'the headers' }) : null,
    data ? h(Tensors, { view: data }) : null,
  );
}

function Tensors({ view }: { view: TensorsView }) {
  const [shown, setShown] = useState(ROWS);
  if (view.tensorCount === 0)
    return h(
      'div',
      null,
      h('p', { class: 'empty' }, 'No file holds tensors that could be read.'),
      h(Notes, { notes: view.notes }),
    );
  return h(
    'div',
    null,
    h(Facts, {
      facts: [
        ['Tensors', `${count(view.tensorCount)}, ${bytes(view.sizeBytes)}`],
        [
          'Types',
          view.dtypes
            .map(({ dtype, count: number, sizeBytes }) => `${dtype}: ${count(number)}, ${bytes(sizeBytes)}`)
            .join('; '),
        ],
        ['Read', `${bytes(view.bytesRead)} of headers`],
      ],
    }),
    h(Histogram, { bins: view.histogram }),
    h(Table, {
      label: 'Tensors, the largest first',
      titles: ['Tensor', 'Type', 'Shape', 'Size', 'File'],
      rows: view.largest
        .slice(0, shown)
        .map(({ name, dtype, shape, sizeBytes, file }) => [
          h(Text, { text: name }),
          dtype,
          `[${shape.join(', ')}]`,
          bytes(sizeBytes),
          h(Text, { text: file }),
        ]),
    }),
    h(More, { shown, total: view.largest.length, onMore: () => setShown(shown + 500) }),
    view.largest.length < view.tensorCount
      ? h(
          'p',
          { class: 'note' },
          `The largest ${count(view.largest.length)} of ${plural(view.tensorCount, 'tensor')}. holdfast inspect prints all.`,
        )
      : null,
    h(Notes, { notes: view.notes }),
  );
}

function Notes({ notes }: { notes: readonly string[] }) {
  return notes.length === 0
    ? null
    : h(
        'ul',
        { class: 'note' },
        notes.map((note) => h('li', { key: note }, h(Text, { text: note }))),
      );
}

/** Each bin says its number in words too. */
function Histogram({ bins }: { bins: TensorsView['histogram'] }) {
  const most = Math.max(1, ...bins.map((bin) => bin.count));
  return h(
    'ol',
    { class: 'histogram', 'aria-label': 'Sizes of the tensors' },
    bins
      .filter((bin) => bin.count > 0)
      .map((bin) =>
        h(
          'li',
          { key: bin.fromBytes },
          h('span', null, `${bytes(bin.fromBytes)} to ${bytes(bin.toBytes)}`),
          h(
            'svg',
            { class: 'meter', width: '100%', height: 10, 'aria-hidden': 'true' },
            h('rect', { width: `${(bin.count / most) * 100}%`, height: 10, rx: 3 }),
          ),
          h('span', null, plural(bin.count, 'tensor')),
        ),
      ),
  );
}
