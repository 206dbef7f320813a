/** The agent of this machine: the saves of its trainers, its memory and its stage. */

import { h } from 'preact';
import { useRef } from 'preact/hooks';
import type { AgentView } from '../src/api.ts';
import { useCall } from './live.ts';
import { Badge, Card, Facts, Loading, ProblemNote, Text, type Tone } from './parts.ts';
import { Table } from './table.ts';
import { bytes, count, duration } from './words.ts';

/** A save may take some seconds only. The agent is on this machine, and asks no store for it. */
const AGENT_POLL_MS = 2000;

type Save = AgentView['writers'][number]['saves'][number];

export function AgentPage() {
  const { data: view, error } = useCall<AgentView>('/api/agent', {}, { pollMs: AGENT_POLL_MS });
  const rate = useRate(view);
  if (view === null)
    return error ? h(ProblemNote, { error }) : h(Loading, { what: 'the state of the agent' });
  const { memory, stage } = view;
  const saves = view.writers.flatMap((writer) => writer.saves.map((save) => ({ writer, save })));
  return h(
    'div',
    { class: 'page' },
    error ? h(ProblemNote, { error }) : null,
    h(
      Card,
      { id: 'agent', title: 'Agent', isMain: true },
      view.isStopping ? h(Badge, { tone: 'warn', text: 'stopping: it takes no new saves' }) : null,
      h(Facts, {
        facts: [
          ['Process', `${view.pid}, version ${view.version}, up ${duration(view.uptimeMs)}`],
          ['Sending', rate === null ? 'not measured yet' : `${bytes(rate)} per second, since the last look`],
          ['Limit of all saves', limitText(view)],
          ['Memory for transfers', `${bytes(memory.usedBytes)} of ${bytes(memory.totalBytes)}`],
          ['Stage', [h(Text, { text: stage.directory }), `, ${stage.kind}, ${bytes(stage.freeBytes)} free`]],
          ['Writers', count(view.writers.length)],
        ],
      }),
    ),
    h(
      Card,
      { id: 'agent-saves', title: 'Saves' },
      saves.length === 0
        ? h('p', { class: 'empty' }, 'No trainer has saved through this agent.')
        : h(Table, {
            label: 'Saves',
            titles: [
              'Run',
              'Writer',
              'Process',
              'Version',
              'State',
              'Durability',
              'Bytes',
              'What is in the way',
            ],
            rows: saves.map(({ writer: { uri, index, count: number, pid, isConnected }, save }) => [
              h(Text, { text: uri }),
              `${index} of ${number}`,
              `${pid}${isConnected ? '' : ', gone'}`,
              save.version,
              h(Badge, { tone: toneOf(save), text: save.state }),
              save.durability,
              `${bytes(save.doneBytes)} of ${bytes(save.sizeBytes)}`,
              h(Text, { text: inTheWay(save), max: 400 }),
            ]),
          }),
    ),
    h(
      Card,
      { id: 'agent-commits', title: 'Newest commits' },
      view.newest.length === 0
        ? h('p', { class: 'empty' }, 'No version was committed through this agent.')
        : h(Table, {
            label: 'Newest commits',
            titles: ['Run', 'Version'],
            rows: view.newest.map(({ uri, version }) => [h(Text, { text: uri }), version ?? 'none yet']),
          }),
    ),
  );
}

/** An agent of an older version does not tell its limit. */
function limitText({ saveBytesPerSecondMax: limit }: Partial<AgentView>): string {
  if (limit === undefined) return 'not told by this agent';
  return limit === null ? 'none' : `${bytes(limit)} per second`;
}

function toneOf({ state, error }: Save): Tone {
  if (error !== null) return 'bad';
  return state === 'committed' ? 'good' : 'accent';
}

function inTheWay({ error, missingWriters }: Save): string {
  if (error !== null) return `${error.code}: ${error.message}`;
  return missingWriters.length === 0 ? '' : `without writer ${missingWriters.slice(0, 20).join(', ')}`;
}

/** Bytes per second between the last two answers; `null`: only one answer yet. */
function useRate(view: AgentView | null): number | null {
  const last = useRef<{ view: AgentView; done: ReadonlyMap<string, number>; rate: number | null } | null>(
    null,
  );
  if (view === null || last.current?.view === view) return last.current?.rate ?? null;
  const saves = view.writers.flatMap((writer) => writer.saves);
  const done = new Map(saves.map(({ saveId, doneBytes }) => [saveId, doneBytes]));
  const before = last.current;
  const elapsedMs = before === null ? 0 : view.uptimeMs - before.view.uptimeMs;
  const sent = [...done].reduce((sum, [id, now]) => sum + Math.max(0, now - (before?.done.get(id) ?? 0)), 0);
  last.current = { view, done, rate: elapsedMs > 0 ? (sent * 1000) / elapsedMs : null };
  return last.current.rate;
}
