import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { EtcdClient } from './client.ts';
import { untilAnswered } from './patience.ts';

const HOUR_MS = 3_600_000;
const patience = { timeoutMs: 10_000, what: 'no world began' };

/** A clock that a sleep moves, at once. */
function scene() {
  let elapsedMs = 0;
  const clock = {
    ...systemClock,
    monotonicMs: () => elapsedMs,
    sleep: async (ms: number) => {
      elapsedMs += ms;
    },
  };
  return { clock, client: new EtcdClient({ endpoints: ['http://127.0.0.1:1'], clock }) };
}

test.each(['in a call', 'between two calls'])(
  'time in which the process is frozen %s does not count',
  async (at) => {
    const { clock, client } = scene();
    let tryCount = 0;
    const { sleep } = clock;
    if (at === 'between two calls') clock.sleep = (ms) => sleep(ms + HOUR_MS);
    const answer = await untilAnswered(client, patience, async () => {
      tryCount += 1;
      if (tryCount === 3) return 'a world';
      if (at === 'between two calls') return null;
      await sleep(HOUR_MS);
      throw new CheckpointError('Unavailable', 'no answer');
    });
    expect([answer, tryCount]).toEqual(['a world', 3]);
  },
);

test('calls that take as long as they may count in full', async () => {
  const { clock, client } = scene();
  const asking = untilAnswered(client, patience, async ({ untilMs }) => {
    await clock.sleep(untilMs - clock.monotonicMs());
    throw new CheckpointError('Unavailable', 'no answer');
  });
  await expect(asking).rejects.toMatchObject({
    code: 'TimedOut',
    message: 'no world began within 10000 ms: no answer',
  });
  expect(clock.monotonicMs()).toBe(10_000);
});
