/** A plain table, and the button for more of its rows. */

import { type ComponentChildren, h } from 'preact';
import { count } from './words.ts';

export function More({ shown, total, onMore }: { shown: number; total: number; onMore: () => void }) {
  if (shown >= total) return null;
  return h('button', { type: 'button', onClick: onMore }, `Show more (${count(total - shown)} not shown)`);
}

export function Table({
  label,
  titles,
  rows,
}: {
  label: string;
  titles: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
}) {
  return h(
    'div',
    { class: 'scroll-x', tabIndex: 0, role: 'region', 'aria-label': `Table: ${label}` },
    h(
      'table',
      null,
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          titles.map((name) => h('th', { key: name, scope: 'col' }, name)),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map(([first, ...rest], index) =>
          h(
            'tr',
            { key: index },
            h('th', { scope: 'row' }, first),
            rest.map((cell, at) => h('td', { key: at }, cell)),
          ),
        ),
      ),
    ),
  );
}
