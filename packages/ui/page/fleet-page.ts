/** All runs below the operands of the command: their names, ages, sizes and states. */

import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { FleetAnswer, FleetView, Spark } from '../src/api.ts';
import { POLL_MS, useCall, useNow } from './live.ts';
import { Age, Badge, Card, Loading, linkTo, ProblemNote, Text, type Tone } from './parts.ts';
import { aheadOf, chosenRuns, ORDER_NAMES, type Run, type RunChoice, type RunOrder } from './run-choice.ts';
import { More } from './table.ts';
import { bytes, clocksDiffer, clocksText, count, duration, plural } from './words.ts';

/** While the first look at the runs goes on. */
const FIRST_POLL_MS = 1000;

/** So many rows, and sparks, are loaded at first and with each request for more. */
const ROWS = 50;

const STATES: Readonly<Record<Run['state'], readonly [Tone, string]>> = {
  ok: ['good', 'has a version to restore'],
  empty: ['plain', 'no commit yet'],
  damaged: ['bad', 'damaged'],
  denied: ['warn', 'not permitted'],
  unreachable: ['bad', 'not reachable'],
};

export function FleetPage() {
  const [pollMs, setPollMs] = useState(FIRST_POLL_MS);
  const { data: view, error } = useCall<FleetView>(
    '/api/runs',
    {},
    {
      pollMs,
      pollQuery: (before) => (before === null ? {} : { since: before.version }),
      merge: (before, given) => ('isUnchanged' in (given as FleetAnswer) ? (before as FleetView) : given),
    },
  );
  const [text, setText] = useState('');
  const [state, setState] = useState<RunChoice['state']>('');
  const [order, setOrder] = useState<RunOrder>('age');
  const [shown, setShown] = useState(ROWS);
  if (view === null) return error ? h(ProblemNote, { error }) : h(Loading, { what: 'the runs' });
  const isFirstLook = view.doneAtMs === null && view.isLooking;
  if (!isFirstLook && pollMs !== POLL_MS) setPollMs(POLL_MS);
  const problem = error ?? view.problem;
  const matching = chosenRuns(view.runs, { text, state, order });
  const rows = matching.slice(0, shown);
  return h(
    'div',
    { class: 'page' },
    problem ? h(ProblemNote, { error: problem, since: view.doneAtMs }) : null,
    h(
      Card,
      { id: 'runs', title: 'Runs', isMain: true, note: h(LookNote, { view }) },
      h(Counts, { runs: view.runs }),
      h(ClocksNote, { runs: view.runs }),
      h(
        'div',
        { class: 'controls' },
        h(
          'label',
          null,
          'Find ',
          h('input', {
            type: 'search',
            value: text,
            placeholder: 'name or attempt',
            onInput: (event: Event) => setText((event.currentTarget as HTMLInputElement).value),
          }),
        ),
        h(Choice, {
          label: 'State',
          value: state,
          choices: [
            ['', 'any'],
            ...Object.entries(STATES).map(([name, [, words]]) => [name, words] as const),
          ],
          onChange: (value) => setState(value as RunChoice['state']),
        }),
        h(Choice, {
          label: 'Order',
          value: order,
          choices: Object.entries(ORDER_NAMES),
          onChange: (value) => setOrder(value as RunOrder),
        }),
        h('span', { class: 'total', role: 'status' }, plural(matching.length, 'run')),
      ),
      matching.length === 0 ? h('p', { class: 'empty' }, noneText(view)) : h(RunTable, { rows }),
      h(More, { shown: rows.length, total: matching.length, onMore: () => setShown(shown + ROWS) }),
    ),
  );
}

function noneText({ runs, doneAtMs }: FleetView): string {
  if (runs.length > 0) return 'No run matches.';
  return doneAtMs === null ? 'No run is known yet.' : 'There is no run at or below these places.';
}

function LookNote({ view }: { view: FleetView }): ComponentChildren {
  const now = useNow();
  if (view.doneAtMs === null)
    return view.isLooking ? 'The first look goes on. More runs may follow.' : 'No look has succeeded yet.';
  return `Read ${duration(now - view.doneAtMs)} ago${view.isLooking ? ', and being read again' : ''}. Each run has the time of its own facts.`;
}

function Counts({ runs }: { runs: readonly Run[] }) {
  const states = Object.entries(STATES).map(([state, [tone, words]]) => ({
    tone,
    words,
    number: runs.filter((run) => run.state === state).length,
  }));
  return h(
    'p',
    { class: 'badges' },
    states
      .filter(({ number }) => number > 0)
      .map(({ tone, words, number }) => h(Badge, { key: words, tone, text: `${count(number)}: ${words}` })),
  );
}

/** Names the store whose clock differs most. */
function ClocksNote({ runs }: { runs: readonly Run[] }) {
  const differing = runs.filter((run) => clocksDiffer(aheadOf(run)));
  const [worst] = differing.toSorted((a, b) => Math.abs(aheadOf(b)) - Math.abs(aheadOf(a)));
  if (worst === undefined) return null;
  const more = differing.length - 1;
  const others = more === 0 ? '' : ` The clocks of ${plural(more, 'other run')} differ too.`;
  return h(
    'p',
    { class: 'warning' },
    h(Text, { text: worst.name === '' ? worst.uri : worst.name }),
    `: ${clocksText(aheadOf(worst))}.${others}`,
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (readonly [string, string])[];
  readonly onChange: (value: string) => void;
}

function Choice({ label, value, choices, onChange }: ChoiceProps) {
  return h(
    'label',
    null,
    `${label} `,
    h(
      'select',
      { value, onChange: (event: Event) => onChange((event.currentTarget as HTMLSelectElement).value) },
      choices.map(([name, words]) => h('option', { key: name, value: name }, words)),
    ),
  );
}

const TITLES = ['Run', 'State', 'Latest', 'Commits', 'Size', 'Stored', 'Versions', 'Writers', 'Fences'];

function RunTable({ rows }: { rows: readonly Run[] }) {
  const parts = Array.from({ length: Math.ceil(rows.length / ROWS) }, (_, index) =>
    rows.slice(index * ROWS, (index + 1) * ROWS),
  );
  return h(
    'div',
    { class: 'scroll-x', tabIndex: 0, role: 'region', 'aria-label': 'Table of runs' },
    h(
      'table',
      { class: 'runs' },
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          TITLES.map((name) => h('th', { key: name, scope: 'col' }, name)),
        ),
      ),
      parts.map((part, index) => h(RunRows, { key: index, rows: part })),
    ),
  );
}

/** Reads the commits of its runs, and again when one of them has changed. */
function RunRows({ rows }: { rows: readonly Run[] }) {
  const uri = rows.map((run) => run.uri);
  const version = rows.map(({ seq }) => seq).join();
  const { data } = useCall<readonly Spark[]>('/api/sparks', { uri }, { version });
  return h(
    'tbody',
    null,
    rows.map((run) => h(RunRow, { key: run.uri, run, spark: data?.find((spark) => spark.uri === run.uri) })),
  );
}

function RunRow({ run, spark }: { run: Run; spark: Spark | undefined }) {
  const { uri, name, state, problem, latest, asOfMs } = run;
  const [tone, words] = STATES[state];
  const unknown = asOfMs === null ? 'unknown' : '';
  return h(
    'tr',
    null,
    h(
      'th',
      { scope: 'row' },
      h(
        'a',
        { href: linkTo('run', { uri }), title: uri.slice(0, 4096) },
        h('bdi', null, (name === '' ? uri : name).slice(0, 200)),
      ),
    ),
    h(
      'td',
      null,
      h(Badge, { tone, text: words, ...(problem && { title: problem.message.slice(0, 1000) }) }),
      problem
        ? h(
            'span',
            { class: 'faint' },
            ` ${problem.code}`,
            asOfMs === null ? null : [', facts of ', h(Age, { atMs: asOfMs })],
          )
        : null,
    ),
    h(
      'td',
      null,
      latest === null
        ? unknown || 'none'
        : [`${latest.version}, `, h(Age, { atMs: latest.committedAtMs, aheadMs: aheadOf(run) })],
    ),
    h('td', null, h(Sparkline, { spark, aheadMs: aheadOf(run) })),
    h('td', null, latest === null ? unknown : bytes(latest.sizeBytes)),
    h('td', null, run.storedBytes === null ? unknown : bytes(run.storedBytes)),
    h(
      'td',
      null,
      run.retainedCount === null
        ? unknown
        : `${count(run.retainedCount)}${run.retiringCount ? `, ${count(run.retiringCount)} retired` : ''}`,
    ),
    h('td', null, run.writerCount === null ? unknown : count(run.writerCount)),
    h('td', null, run.recentFenceCount === null ? 'unknown' : count(run.recentFenceCount)),
  );
}

const WIDTH = 120;
const HEIGHT = 20;

/** A line for each of the newest commits, over the time until now. */
function Sparkline({ spark, aheadMs }: { spark: Spark | undefined; aheadMs: number }) {
  const now = useNow() + aheadMs;
  if (spark === undefined || spark.commitsMs.length === 0) return null;
  const first = spark.commitsMs.at(-1) ?? now;
  const span = Math.max(1, now - first);
  const label = `${plural(spark.commitsMs.length, 'commit')} in the last ${duration(span)}`;
  return h(
    'svg',
    { width: WIDTH, height: HEIGHT, role: 'img', 'aria-label': label, class: 'spark' },
    h('title', null, label),
    h('line', { x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1, class: 'grid' }),
    spark.commitsMs.map((atMs, index) => {
      const x = 1 + ((atMs - first) / span) * (WIDTH - 2);
      return h('line', { key: index, x1: x, x2: x, y1: 4, y2: HEIGHT - 1, class: 'line c0' });
    }),
  );
}
