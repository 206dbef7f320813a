import { CheckpointError, type Clock, type RecoverResult, systemClock } from '@holdfast/core';
import { expect, test } from 'vitest';
import { lookOnce, settle } from './settle.ts';

const ID = { lineage: 1, epoch: 2, version: 7n };
const LOST = new CheckpointError('OutcomeUnknown', 'no answer', { context: { token: 'T' } });
const DOWN = new CheckpointError('Unavailable', 'down');

function answer(outcome: RecoverResult['outcome']): RecoverResult {
  const id = outcome === 'committed' ? ID : null;
  return { outcome, id, of: 'commit', isDelivered: null, detail: 'why' };
}

/** Gives each answer in turn, the last one for ever. Time passes only in sleeps. */
function settled(...answers: readonly (RecoverResult | CheckpointError)[]) {
  return settledUntil(new AbortController(), ...answers);
}

function settledUntil(stop: AbortController, ...answers: readonly (RecoverResult | CheckpointError)[]) {
  let nowMs = 0;
  let asked = 0;
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => nowMs,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      nowMs += ms;
    },
  };
  const manager = {
    recover: async (token: string) => {
      expect(token).toBe('T');
      const given = answers[Math.min(asked++, answers.length - 1)] as RecoverResult | CheckpointError;
      if (given instanceof CheckpointError) throw given;
      return given;
    },
    commit: async ({ version }: { version?: unknown } = {}) => {
      expect(version).toBe(7n);
      return { id: ID };
    },
  };
  return settle(manager as never, LOST, { version: 7n, signal: stop.signal }, clock);
}

const stopped = new AbortController();
stopped.abort(new CheckpointError('Aborted', 'cancelled'));

test('a cancelled save is asked for once', async () => {
  expect(await settledUntil(stopped, answer('committed'))).toEqual({ id: ID });
  expect(await settledUntil(stopped, DOWN, answer('committed'))).toEqual({ error: LOST });
});

test('it took effect', async () => {
  expect(await settled(answer('committed'))).toEqual({ id: ID });
});

test('it did not, and never will', async () => {
  const { error } = await settled(answer('not-committed'));
  expect(error).toMatchObject({ code: 'Unavailable', message: 'version 7 was not committed: why' });
});

test('it still may: the commit is repeated', async () => {
  expect(await settled(answer('pending'))).toEqual({ id: ID });
});

test('it can no longer be known', async () => {
  expect(await settled(answer('unknown'))).toEqual({ error: LOST });
});

test('the store is down for a while', async () => {
  expect(await settled(DOWN, DOWN, answer('committed'))).toEqual({ id: ID });
});

test('the store stays down: the outcome stays unknown, after a bounded time', async () => {
  expect(await settled(DOWN)).toEqual({ error: LOST });
});

test('the store refuses to answer', async () => {
  expect(await settled(new CheckpointError('Denied', 'no'), answer('committed'))).toEqual({ error: LOST });
});

test('an error without a token', async () => {
  const error = new CheckpointError('OutcomeUnknown', 'no token');
  expect(await settle({} as never, error, { version: 7n, signal: stopped.signal })).toEqual({ error });
});

test('a save whose time is over ends as one look says', async () => {
  const missing = new CheckpointError('Incomplete', 'writer 1 has not delivered');
  const looked = (commit: () => Promise<unknown>) => lookOnce({ commit } as never, LOST, 7n);
  expect(await looked(async () => ({ id: ID }))).toEqual({ id: ID });
  expect(await looked(() => Promise.reject(missing))).toEqual({ error: missing });
  expect(await looked(() => Promise.reject(DOWN))).toEqual({ error: LOST });
});
