/** Changes, if the command permits them: a form, then the plan, then the result. */

import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { ChangePlan, ChangeRequest, ChangeResult, VersionRow } from '../src/api.ts';
import { useSource } from './live.ts';
import { Card, ProblemNote, Text } from './parts.ts';
import type { CallError } from './source.ts';

type Fields = Pick<ChangeRequest, 'reason' | 'name' | 'text'>;

interface ChangeFormProps {
  readonly title: string;
  readonly request: Omit<ChangeRequest, keyof Fields>;
  /** Names of the fields, with their labels. */
  readonly fields: readonly (readonly [keyof Fields, string])[];
  readonly onDone: () => void;
}

export function ChangeCard({ uri, row, onDone }: { uri: string; row: VersionRow; onDone: () => void }) {
  const about = { uri, version: row.version, lineage: row.lineage };
  const mayRollBack = !row.isLatest && !row.isLeftBehind && row.state === 'live';
  const form = (title: string, action: ChangeRequest['action'], fields: ChangeFormProps['fields']) =>
    h(ChangeForm, { key: action, title, request: { ...about, action }, fields, onDone });
  return h(
    Card,
    {
      id: 'change',
      title: 'Change',
      note: 'Each change is planned first, and stands in the log of the run with its reason.',
    },
    row.state === 'live' ? form('Pin', 'pin', [['reason', 'Reason, which becomes the label']]) : null,
    row.state === 'live'
      ? form('Annotate', 'annotate', [
          ['name', 'Name'],
          ['text', 'Text'],
          ['reason', 'Reason'],
        ])
      : null,
    mayRollBack ? form('Roll back to this version', 'rollback', [['reason', 'Reason']]) : null,
  );
}

/** Planning again is needed after each change of a field. */
export function ChangeForm({ title, request, fields, onDone }: ChangeFormProps) {
  const source = useSource();
  const [values, setValues] = useState<Fields>({});
  const [plan, setPlan] = useState<ChangePlan | null>(null);
  const [done, setDone] = useState('');
  const [error, setError] = useState<CallError | null>(null);
  const send = async (confirm?: string) => {
    setError(null);
    try {
      const body = { ...request, ...values, ...(confirm && { confirm }) };
      const answer = await source.post<ChangePlan | ChangeResult>('/api/change', body);
      const isDone = 'done' in answer;
      setPlan(isDone ? null : answer);
      setDone(isDone ? answer.done : '');
      if (isDone) onDone();
    } catch (thrown) {
      setPlan(null);
      setError(thrown as CallError);
    }
  };
  const input = (name: keyof Fields, label: string): ComponentChildren =>
    h(
      'label',
      { key: name },
      `${label} `,
      h('input', {
        value: values[name] ?? '',
        required: true,
        maxLength: 1000,
        onInput: (event: Event) => {
          setPlan(null);
          setValues({ ...values, [name]: (event.currentTarget as HTMLInputElement).value });
        },
      }),
    );
  return h(
    'form',
    {
      class: 'change',
      'aria-label': title,
      onSubmit: (event: Event) => {
        event.preventDefault();
        void send();
      },
    },
    h('h3', null, title),
    h(
      'div',
      { class: 'controls' },
      fields.map(([name, label]) => input(name, label)),
      h('button', { type: 'submit' }, 'Plan'),
    ),
    error ? h(ProblemNote, { error }) : null,
    plan
      ? h(
          'div',
          { class: 'plan', role: 'status' },
          h(
            'ul',
            null,
            plan.lines.map((line) => h('li', { key: line }, h(Text, { text: line, max: 1200 }))),
          ),
          h('button', { type: 'button', onClick: () => void send(plan.digest) }, 'Carry out this plan'),
        )
      : null,
    done === '' ? null : h('p', { class: 'done', role: 'status' }, done),
  );
}
