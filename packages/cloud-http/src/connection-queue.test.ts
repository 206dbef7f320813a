import { type RequestWatch, watchRequests } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { ConnectionQueue } from './connection-queue.ts';

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A queue for one connection, and requests that end when the test says so. */
function setUp() {
  const queue = new ConnectionQueue(1);
  const begun: string[] = [];
  const request = (name: string, signal?: AbortSignal) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const ended = queue.run(signal, () => {
      begun.push(name);
      return promise;
    });
    ended.catch(() => undefined); // The test examines it.
    return { ended, resolve, reject };
  };
  return { queue, begun, request };
}

/** Changes that the signal's watch receives: waiting requests, and requests being sent. */
function watched() {
  const { signal } = new AbortController();
  const counts = { waiting: 0, sent: 0 };
  const watch: RequestWatch = {
    changed: (waiting, sent) => {
      counts.waiting += waiting;
      counts.sent += sent;
    },
  };
  watchRequests(signal, watch);
  return { signal, counts };
}

describe('ConnectionQueue', () => {
  it('begins requests in order, each when there is room for it, after failures too', async () => {
    const { begun, request } = setUp();
    const [first, second, third] = [request('first'), request('second'), request('third')];
    await settled();
    expect(begun).toEqual(['first']);
    first.reject(new Error('lost'));
    await expect(first.ended).rejects.toThrow('lost');
    await settled();
    expect(begun).toEqual(['first', 'second']);
    second.resolve('two');
    third.resolve('three');
    expect(await Promise.all([second.ended, third.ended])).toEqual(['two', 'three']);
    const fourth = request('fourth');
    fourth.resolve('four');
    expect(await fourth.ended).toBe('four');
  });

  it('tells who watches a request whether it waits, or has a connection', async () => {
    const { request } = setUp();
    const { signal, counts } = watched();
    const first = request('first');
    const second = request('second', signal);
    await settled();
    expect(counts).toEqual({ waiting: 1, sent: 0 });
    first.resolve('');
    await first.ended;
    await settled();
    expect(counts).toEqual({ waiting: 0, sent: 1 });
    second.resolve('');
    await second.ended;
    expect(counts).toEqual({ waiting: 0, sent: 0 });
  });

  it('a request that is stopped while it waits is never sent, and takes no place', async () => {
    const { begun, request } = setUp();
    const stop = new AbortController();
    const [first, second, third] = [request('first'), request('second', stop.signal), request('third')];
    stop.abort();
    await expect(second.ended).rejects.toMatchObject({ code: 'Aborted' });
    await expect(request('late', stop.signal).ended).rejects.toMatchObject({ code: 'Aborted' });
    first.resolve('');
    third.resolve('');
    await third.ended;
    expect(begun).toEqual(['first', 'third']);
  });

  it('refuses what waits when it is closed', async () => {
    const { queue, begun, request } = setUp();
    const [first, second] = [request('first'), request('second')];
    queue.close();
    await expect(second.ended).rejects.toMatchObject({ code: 'CLIENT_CLOSED' });
    first.resolve('');
    await first.ended;
    expect(begun).toEqual(['first']);
  });
});
