/** What the checkpoints of a run cost, what they saved, and what another interval would change. */

import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { GoodputView, Interruption } from '../src/api.ts';
import { bestIntervalMs, type CostModel, expectedCostMs } from '../src/goodput.ts';
import { POLL_MS, useCall } from './live.ts';
import { Card, Facts, Loading, linkTo, ProblemNote } from './parts.ts';
import { Table } from './table.ts';
import { count, duration, plural, time } from './words.ts';

export function GoodputPage({ uri }: { uri: string }) {
  const { data: view, error } = useCall<GoodputView>('/api/run/goodput', { uri }, { pollMs: 6 * POLL_MS });
  if (view === null) return error ? h(ProblemNote, { error }) : h(Loading, { what: 'commits and decisions' });
  return h(
    'div',
    { class: 'page' },
    error ? h(ProblemNote, { error }) : null,
    h(
      'section',
      { class: 'card overview', 'aria-label': 'Overview' },
      h('p', { class: 'note' }, h('a', { href: linkTo('run', { uri }) }, h('bdi', null, uri))),
      h('h1', null, 'Goodput'),
      view.isWithoutAttempts
        ? h(
            'p',
            { class: 'warning' },
            'Most saves of this run gave no attempt id. Each then counts as an attempt of its own, so the interruptions below are not those of the job.',
          )
        : null,
      h(Facts, { facts: factsOf(view) }),
    ),
    h(Interval, { view }),
    h(Interruptions, { view }),
  );
}

function orUnknown(ms: number | null, why: string): string {
  return ms === null ? `unknown: ${why}` : duration(ms);
}

function factsOf(view: GoodputView): [string, ComponentChildren][] {
  const since =
    view.firstCommitMs === null
      ? 'no commit yet'
      : `${duration(view.spanMs)}, since ${time(view.firstCommitMs)}`;
  return [
    ['Span of the commits', since],
    ['Commits in the catalog', count(view.commitCount)],
    ['Interval, median', orUnknown(view.intervalMs, 'no attempt has two commits')],
    ['Interval, longest', orUnknown(view.longestIntervalMs, 'no attempt has two commits')],
    [
      'Blocked by saves (UNPRODUCTIVE_CHECKPOINT_SAVE_TIME)',
      'unknown: the store does not record it. The trainer measures it: holdfast_save_blocked_seconds',
    ],
    [
      'Time to commit, median',
      view.timeToCommitMs === null
        ? 'unknown: writers did not report when they read their state'
        : `${duration(view.timeToCommitMs)}, of ${plural(view.timeToCommitCount, 'version')}. The clocks of the writers and of the store may differ`,
    ],
    [
      'Work lost (WASTED_PROGRESS_FROM_DISRUPTION)',
      view.interruptionCount === 0
        ? 'none: there was no interruption'
        : `at most ${duration(view.lostAtMostMs)} at ${plural(view.interruptionCount, 'interruption')}`,
    ],
    [
      'Work saved by checkpoints',
      view.savedAtLeastMs === 0
        ? 'none yet: no new attempt has begun with one'
        : `at least ${duration(view.savedAtLeastMs)}: without them each new attempt would begin anew`,
    ],
    ['Left behind by rollbacks', duration(view.rolledBackMs)],
    ['Restores (UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME)', 'unknown: the store does not record it'],
  ];
}

/** The model needs the blocked time, which only the reader of the page can know. */
function Interval({ view }: { view: GoodputView }) {
  const [seconds, setSeconds] = useState('');
  const blockedMs = Number(seconds) * 1000;
  const { intervalMs, interruptionCount, spanMs } = view;
  const isPossible = intervalMs !== null && intervalMs > 0 && interruptionCount > 0 && spanMs > 0;
  return h(
    Card,
    {
      id: 'interval',
      title: 'Another interval',
      note: 'A model of Young and Daly, not a measurement: each save blocks for the time that you enter, and each interruption loses half an interval.',
    },
    isPossible
      ? h(
          'div',
          null,
          h(
            'label',
            null,
            'Seconds that a save blocks training ',
            h('input', {
              type: 'number',
              min: 0,
              step: 'any',
              value: seconds,
              onInput: (event: Event) => setSeconds((event.currentTarget as HTMLInputElement).value),
            }),
          ),
          blockedMs > 0
            ? h(Comparison, { model: { blockedMs, spanMs, interruptionCount }, intervalMs })
            : null,
        )
      : h('p', { class: 'empty' }, 'The model needs an interval and at least one interruption.'),
  );
}

function Comparison({ model, intervalMs }: { model: CostModel; intervalMs: number }) {
  const best = bestIntervalMs(model);
  const [now, then] = [expectedCostMs(model, intervalMs), expectedCostMs(model, best)];
  const row = (name: string, interval: number) => [
    name,
    duration(interval),
    duration((model.spanMs / interval) * model.blockedMs),
    duration((model.interruptionCount * interval) / 2),
    duration(expectedCostMs(model, interval)),
  ];
  return h(
    'div',
    null,
    h(
      'p',
      { role: 'status' },
      `With an interval of ${duration(best)} the model expects a cost of ${duration(then)} instead of ${duration(now)} over ${duration(model.spanMs)}: ${duration(Math.max(0, now - then))} less.`,
    ),
    h(Table, {
      label: 'Intervals compared',
      titles: ['Interval', 'Length', 'Blocked', 'Lost', 'Together'],
      rows: [
        row('as measured', intervalMs),
        row('half', intervalMs / 2),
        row('twice', intervalMs * 2),
        row('best', best),
      ],
    }),
  );
}

function Interruptions({ view }: { view: GoodputView }) {
  const note =
    'The store does not record when an attempt stopped. The loss is therefore at most the time from the last commit to the takeover. It is counted to the next commit if the takeover is not known: the log no longer has it, it is before the newest decisions that were read, or the clocks of the writer and of the store differ.';
  return h(
    Card,
    { id: 'interruptions', title: 'Interruptions', note },
    view.interruptions.length === 0
      ? h('p', { class: 'empty' }, 'One attempt has made all commits in the catalog.')
      : h(Table, {
          label: 'Interruptions',
          titles: [
            'What',
            'Attempts',
            'Last commit',
            'Takeover',
            'Next commit',
            'Lost at most',
            'Takeover to commit',
          ],
          rows: view.interruptions.map(rowOf),
        }),
    view.interruptionCount > view.interruptions.length
      ? h(
          'p',
          { class: 'note' },
          `${count(view.interruptionCount - view.interruptions.length)} older ones are not shown.`,
        )
      : null,
  );
}

function rowOf(each: Interruption): string[] {
  return [
    each.kind === 'rollback' ? 'rollback' : 'new attempt',
    `${each.from} to ${each.to}`,
    `${each.lastVersion}, ${time(each.lastCommitMs)}`,
    each.startMs === null ? 'not known' : time(each.startMs),
    `${each.nextVersion}, ${time(each.nextCommitMs)}`,
    duration(each.lostAtMostMs),
    each.startMs === null ? 'unknown' : duration(each.nextCommitMs - each.startMs),
  ];
}
