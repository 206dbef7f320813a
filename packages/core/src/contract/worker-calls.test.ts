import { getEventListeners } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { WorkerPort } from './transfer-workers.ts';
import { type ServedCall, ServiceCalls, serveCalls, WorkerCalls } from './worker-calls.ts';

/** A service in this thread. */
function callsOf(answer: (request: string, call: ServedCall) => Promise<string> | string) {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port1.close());
  serveCalls(port2 as unknown as WorkerPort, answer);
  return { calls: new WorkerCalls<string, string>(port1 as unknown as WorkerPort), service: port2 };
}

const never = () => new Promise<never>(() => undefined);

describe('WorkerCalls', () => {
  test('each call gets its own answer, in any order', async () => {
    const { calls } = callsOf(async (request) => {
      if (request === 'slow') await new Promise((resolve) => setTimeout(resolve, 20));
      return `${request} done`;
    });
    const both = [calls.call('slow'), calls.call('fast')];
    expect(calls.pendingCount).toBe(2);
    expect(await Promise.race(both)).toBe('fast done');
    expect(await both[0]).toBe('slow done');
    expect(calls.pendingCount).toBe(0);
  });

  test('an error of the service is the error of the call', async () => {
    const { calls } = callsOf(() => Promise.reject(new TypeError('no such thing')));
    await expect(calls.call('a')).rejects.toMatchObject({ name: 'TypeError', message: 'no such thing' });
    expect(calls.pendingCount).toBe(0);
  });

  test('a signal only asks the service to stop: the call ends with its answer', async () => {
    const { calls } = callsOf(
      (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('stopped cleanly'))),
    );
    const stop = new AbortController();
    const call = calls.call('a', { signal: stop.signal });
    stop.abort();
    expect(await call).toBe('stopped cleanly');
    expect(await calls.call('b', { signal: AbortSignal.abort() })).toBe('stopped cleanly');
  });

  test('after the answer the signal is forgotten', async () => {
    const { calls } = callsOf(() => 'done');
    const { signal } = new AbortController();
    await calls.call('a', { signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('the channel keeps the process alive only while a call is pending', async () => {
    let isHeld = true;
    let answer: (message: { id: number; answer: string }) => void = () => undefined;
    const hold = (held: boolean) => {
      isHeld = held;
    };
    const port: WorkerPort = {
      postMessage: () => undefined,
      on: (event, listener) => {
        if (event === 'message') answer = listener as typeof answer;
      },
      ref: () => hold(true),
      unref: () => hold(false),
      close: () => undefined,
    };
    const calls = new WorkerCalls<string, string>(port);
    expect(isHeld).toBe(false);
    const both = [calls.call('a'), calls.call('b')];
    answer({ id: 1, answer: 'done' });
    expect(isHeld).toBe(true);
    answer({ id: 2, answer: 'done' });
    await Promise.all(both);
    expect(isHeld).toBe(false);
  });

  test('progress is reported, not for each byte', async () => {
    let toldCount = 0;
    const { calls } = callsOf((_, { onBytes }) => {
      for (let count = 0; count < 1000; count++) onBytes();
      return 'done';
    });
    await calls.call('a', { onBytes: () => toldCount++ });
    expect(toldCount).toBe(1);
  });

  test('a thread that ends fails its calls, and those that come later', async () => {
    const { calls, service } = callsOf(never);
    const call = calls.call('a');
    service.close();
    await expect(call).rejects.toMatchObject({ name: 'WorkerGone' });
    expect(calls.isGone).toBe(true);
    await expect(calls.call('b')).rejects.toMatchObject({ name: 'WorkerGone' });
  });

  test('close fails what is pending', async () => {
    const { calls } = callsOf(never);
    const call = calls.call('a');
    calls.close();
    await expect(call).rejects.toMatchObject({ name: 'WorkerGone' });
  });
});

test('ServiceCalls: each call goes to a worker with the fewest pending ones', async () => {
  const served = [0, 0, 0];
  const answers: (() => void)[] = [];
  const connect = (index: number) => {
    const { port1, port2 } = new MessageChannel();
    serveCalls<string, string>(port2 as unknown as WorkerPort, () => {
      served[index] = (served[index] ?? 0) + 1;
      return new Promise((resolve) => answers.push(() => resolve('done')));
    });
    return port1 as unknown as WorkerPort;
  };
  const service = new ServiceCalls<string, string>({ count: 3, connect }, new URL('file:///service'));
  onTestFinished(() => service.close());
  const calls = Array.from({ length: 7 }, () => service.idlest.call('a'));
  await vi.waitFor(() => expect(answers).toHaveLength(7), { timeout: 20_000 });
  expect(served.sort()).toEqual([2, 2, 3]);
  for (const answer of answers) answer();
  await Promise.all(calls);
});
