/** The list of versions. Only the visible rows exist, however many versions there are. */

import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { VersionFilter, VersionRow, VersionsPage } from '../src/api.ts';
import { useSource } from './live.ts';
import { Age, badgesOf, ProblemNote, versionLink } from './parts.ts';
import type { CallError } from './source.ts';
import { bytes, metric, plural } from './words.ts';

const ROW_HEIGHT = 46;
const VISIBLE_HEIGHT = 12 * ROW_HEIGHT;
const PAGE_ROWS = 100;

const FILTER_NAMES: Readonly<Record<VersionFilter, string>> = {
  all: 'all versions',
  pinned: 'pinned',
  verified: 'verified',
  next: 'going next',
  'left-behind': 'left behind',
  retiring: 'retired',
  quarantined: 'quarantined',
};

export interface VersionListProps {
  readonly uri: string;
  /** That of the run; `null` until the whole run is read. */
  readonly revision: string | null;
  /** The store's clock minus the server's. */
  readonly aheadMs: number;
}

export function VersionList({ uri, revision, aheadMs }: VersionListProps) {
  const [filter, setFilter] = useState<VersionFilter>('all');
  const [text, setText] = useState('');
  const [top, setTop] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const { total, rowAt, error } = useRows(uri, revision, { filter, text, top });
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - 4);
  const last = Math.min(total ?? 0, first + VISIBLE_HEIGHT / ROW_HEIGHT + 8);
  const reset = () => {
    setTop(0);
    if (scroller.current) scroller.current.scrollTop = 0;
  };
  return h(
    'div',
    { class: 'versions' },
    h(
      'div',
      { class: 'controls' },
      h(
        'label',
        null,
        'Show ',
        h(
          'select',
          {
            value: filter,
            onChange: (event: Event) => {
              setFilter((event.currentTarget as HTMLSelectElement).value as VersionFilter);
              reset();
            },
          },
          Object.entries(FILTER_NAMES).map(([value, name]) => h('option', { key: value, value }, name)),
        ),
      ),
      h(
        'label',
        null,
        'Find ',
        h('input', {
          type: 'search',
          placeholder: 'version, label or metric',
          value: text,
          onInput: (event: Event) => {
            setText((event.currentTarget as HTMLInputElement).value);
            reset();
          },
        }),
      ),
      h('span', { class: 'total', role: 'status' }, total === null ? '' : plural(total, 'version')),
    ),
    error ? h(ProblemNote, { error }) : null,
    h(
      'div',
      {
        role: 'table',
        'aria-label': 'Versions, newest first',
        'aria-rowcount': (total ?? 0) + 1,
        class: 'table',
      },
      h('div', { role: 'rowgroup' }, h(HeadRow, null)),
      h(
        'div',
        {
          role: 'rowgroup',
          class: 'scroller',
          ref: scroller,
          tabIndex: 0,
          'aria-label': 'Rows; scroll for more',
          onScroll: (event: Event) => setTop((event.currentTarget as HTMLElement).scrollTop),
        },
        h(
          'div',
          { role: 'presentation', class: 'spacer', style: { height: `${(total ?? 0) * ROW_HEIGHT}px` } },
          Array.from({ length: Math.max(0, last - first) }, (_, index) => {
            const at = first + index;
            return h(Row, { key: at, at, row: rowAt(at), uri, aheadMs, isJudged: revision !== null });
          }),
        ),
      ),
    ),
    total === 0 ? h('p', { class: 'empty' }, 'No version matches.') : null,
  );
}

const COLUMNS = ['Version', 'Committed', 'Size', 'Metrics', 'State', 'Retention'];

function HeadRow() {
  return h(
    'div',
    { role: 'row', class: 'row head', 'aria-rowindex': 1 },
    COLUMNS.map((name) =>
      h('div', { key: name, role: 'columnheader', class: `cell ${name.toLowerCase()}` }, name),
    ),
  );
}

interface RowProps {
  readonly at: number;
  readonly row: VersionRow | null;
  readonly uri: string;
  readonly aheadMs: number;
  /** The verdicts of retention are read. */
  readonly isJudged: boolean;
}

function Row({ at, row, uri, aheadMs, isJudged }: RowProps) {
  const style = { top: `${at * ROW_HEIGHT}px`, height: `${ROW_HEIGHT}px` };
  const props = { role: 'row', class: 'row', 'aria-rowindex': at + 2, style };
  if (row === null) return h('div', props, h('div', { role: 'cell', class: 'cell' }, '…'));
  const metrics = Object.entries(row.metrics)
    .map(([name, value]) => `${name} ${metric(value)}`)
    .join(', ');
  const cell = (name: string, content: unknown, title?: string) =>
    h('div', { role: 'cell', class: `cell ${name}`, title }, content as string);
  return h(
    'div',
    props,
    cell('version', h('a', { href: versionLink(uri, row) }, row.name)),
    cell('committed', h(Age, { atMs: row.committedAtMs, aheadMs })),
    cell('size', [
      bytes(row.sizeBytes),
      bytes(row.storedBytes) === bytes(row.sizeBytes)
        ? null
        : h('span', { class: 'faint' }, ` ${bytes(row.storedBytes)} stored`),
    ]),
    cell('metrics', h('bdi', null, metrics.slice(0, 200)), metrics.slice(0, 1000)),
    cell('state', badgesOf(row)),
    cell('retention', h('bdi', null, isJudged ? verdictText(row) : '…'), row.why.join('; ')),
  );
}

export function verdictText({ verdict, why }: Pick<VersionRow, 'verdict' | 'why'>): string {
  if (verdict === null) return 'not known';
  const words = { keep: 'kept', retire: 'retires next', remove: 'removed next', wait: 'waits' }[verdict];
  return why.length === 0 ? words : `${words}: ${why.join('; ')}`;
}

/** Loads the pages of rows around the visible ones, and keeps those that were loaded. */
function useRows(
  uri: string,
  revision: string | null,
  { filter, text, top }: { filter: VersionFilter; text: string; top: number },
) {
  const source = useSource();
  const key = `${uri} ${revision} ${filter} ${text}`;
  const [state, setState] = useState<{
    readonly key: string;
    readonly total: number | null;
    readonly pages: ReadonlyMap<number, readonly VersionRow[]>;
    readonly error: CallError | null;
  }>({ key, total: null, pages: new Map(), error: null });
  const firstPage = Math.floor(Math.max(0, top / ROW_HEIGHT - 10) / PAGE_ROWS);
  const lastPage = Math.floor((top + VISIBLE_HEIGHT) / ROW_HEIGHT / PAGE_ROWS);
  const isCurrent = state.key === key;
  useEffect(() => {
    const end = new AbortController();
    const wanted = [...new Set([firstPage, lastPage])].filter((page) => !isCurrent || !state.pages.has(page));
    const load = async (page: number) => {
      try {
        const query = { uri, filter, text, offset: page * PAGE_ROWS, limit: PAGE_ROWS };
        const { total, rows } = await source.get<VersionsPage>('/api/run/versions', query, end.signal);
        setState((before) => {
          // While a new list is loaded, the rows of the former one stay visible.
          const pages = new Map(before.key === key ? before.pages : []);
          return { key, total, pages: pages.set(page, rows), error: null };
        });
      } catch (error) {
        if (!end.signal.aborted) setState((before) => ({ ...before, error: error as CallError }));
      }
    };
    // A person types faster than pages are needed.
    const timer = setTimeout(() => wanted.forEach((page) => void load(page)), text === '' ? 0 : 150);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [key, firstPage, lastPage]);
  const rowAt = (at: number) => state.pages.get(Math.floor(at / PAGE_ROWS))?.[at % PAGE_ROWS] ?? null;
  return { total: state.total, rowAt, error: state.error };
}
