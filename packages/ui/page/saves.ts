/** Saves that were begun and are not committed: bytes of each writer, and which are missing. */

import { h } from 'preact';
import type { BegunView, RunView, WriterProgress } from '../src/api.ts';
import { ProblemNote, Text } from './parts.ts';
import { bytes, count, plural } from './words.ts';

const WRITERS_SHOWN = 64;

export function SavesInProgress({ begun }: { begun: RunView['begun'] }) {
  if ('code' in begun) return h(ProblemNote, { error: begun });
  if (begun.length === 0)
    return h('p', { class: 'empty' }, 'The store shows no save that was begun and is not committed.');
  return h(
    'div',
    null,
    begun.map((save) => h(Save, { key: `${save.epoch}.${save.version}`, save })),
  );
}

function Save({ save }: { save: BegunView }) {
  const { version, worldSize, deliveredCount, uploadedBytes, writers } = save;
  const most = Math.max(1, ...writers.map((writer) => writer.uploadedBytes));
  const hidden = worldSize - Math.min(WRITERS_SHOWN, writers.length);
  return h(
    'div',
    { class: 'save' },
    h(
      'h3',
      null,
      `Version ${version}: ${count(deliveredCount)} of ${plural(worldSize, 'writer')} delivered, ${bytes(uploadedBytes)} arrived`,
    ),
    h(
      'ul',
      { class: 'writers' },
      writers.slice(0, WRITERS_SHOWN).map((writer) => h(Writer, { key: writer.writer, writer, most })),
    ),
    hidden > 0 ? h('p', { class: 'note' }, `${count(hidden)} more writers are not shown.`) : null,
  );
}

function Writer({
  writer: { writer, uploadedBytes, isDelivered, detail },
  most,
}: {
  writer: WriterProgress;
  most: number;
}) {
  const share = Math.round((uploadedBytes / most) * 100);
  return h(
    'li',
    { class: isDelivered ? 'delivered' : 'missing' },
    h('span', { class: 'writer-name' }, `writer ${writer}`),
    h(
      'svg',
      { class: 'meter', width: '100%', height: 8, 'aria-hidden': 'true' },
      h('rect', { width: `${share}%`, height: 8, rx: 3 }),
    ),
    h('span', { class: 'writer-bytes' }, bytes(uploadedBytes)),
    h(
      'span',
      { class: 'writer-state' },
      isDelivered ? 'delivered' : [h('strong', null, 'missing: '), h(Text, { text: detail })],
    ),
  );
}
