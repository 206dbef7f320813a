import { expect, test } from 'vitest';
import type { Answer } from './answers.ts';
import { BODY_BYTES_MAX } from './frames.ts';
import { Meeting } from './meeting.ts';
import type { GroupCall } from './running-world.ts';

const TIMEOUT_MS = 1000;
const LAST_CALL_MS = 100;

/** Workers that send calls to a meeting, and a clock that moves only on request. */
class Stage {
  readonly #meeting = new Meeting({
    lastCallMs: LAST_CALL_MS,
    tell: ({ worker }, answer) => this.#told.push([worker, answer]),
    expel: (worker) => this.expelled.push(worker),
  });
  readonly expelled: number[] = [];
  #told: [number, Answer][] = [];
  nowMs = 0;

  constructor(workers: readonly number[], { minWorkers = 2, maxWorkers = 4 } = {}) {
    for (const worker of workers) this.enter(worker, { minWorkers, maxWorkers });
  }

  enter(worker: number, { minWorkers = 2, maxWorkers = 4, timeoutMs = TIMEOUT_MS } = {}): string | null {
    return this.#meeting.enter(worker, { minWorkers, maxWorkers, timeoutMs });
  }

  come(...workers: number[]): void {
    for (const worker of workers) this.#meeting.rendezvous({ worker, id: 0 }, this.nowMs);
  }

  leave(worker: number): void {
    this.#meeting.leave(worker, this.nowMs);
  }

  finish(worker: number): void {
    this.#meeting.finish({ worker, id: 0 }, this.nowMs);
  }

  gather(worker: number, { seq = 0, call = 'allGather' as GroupCall, bytes = Uint8Array.of(worker) } = {}) {
    this.#meeting.gather({ worker, id: 0 }, { call, seq, bytes }, this.nowMs);
  }

  vote(worker: number, seq: number): unknown {
    this.#meeting.vote({ worker, id: 0 }, seq);
    return this.heard()[0]?.[1];
  }

  /** Lets time pass as the server does: calls `tick` whenever something is due. */
  pass(ms: number): void {
    const endMs = this.nowMs + ms;
    while (this.#meeting.nextTickMs() <= endMs) {
      this.nowMs = this.#meeting.nextTickMs();
      this.#meeting.tick(this.nowMs);
    }
    this.nowMs = endMs;
  }

  /** Answers to workers since the last call. */
  heard(): [number, Answer][] {
    return this.#told.splice(0);
  }
}

function world(rank: number, size: number): Answer {
  return { outcome: 'world', rank, size };
}

function recoverable(message: string): Answer {
  return { outcome: 'recoverable', message };
}

test('rendezvous: a world of the largest size begins at once, with ranks in the order of connecting', () => {
  const stage = new Stage([10, 11, 12, 13]);
  stage.come(13, 11, 10);
  expect(stage.heard()).toEqual([]);
  stage.come(12);
  expect(stage.heard()).toEqual([
    [10, world(0, 4)],
    [11, world(1, 4)],
    [12, world(2, 4)],
    [13, world(3, 4)],
  ]);
});

test('rendezvous: enough workers, but not all that fit, begin when no other comes during the last call', () => {
  const stage = new Stage([0, 1]);
  stage.come(0, 1);
  stage.pass(LAST_CALL_MS - 1);
  expect(stage.heard()).toEqual([]);
  stage.enter(2);
  stage.come(2);
  stage.pass(LAST_CALL_MS - 1);
  expect(stage.heard()).toEqual([]);
  stage.pass(1);
  expect(stage.heard()).toEqual([
    [0, world(0, 3)],
    [1, world(1, 3)],
    [2, world(2, 3)],
  ]);
});

test('rendezvous: connected workers are waited for beyond the last call', () => {
  const stage = new Stage([0, 1, 2]);
  stage.come(1, 2);
  stage.pass(TIMEOUT_MS - 1);
  expect(stage.heard()).toEqual([]);
  stage.come(0);
  stage.pass(LAST_CALL_MS);
  expect(stage.heard().map(([worker]) => worker)).toEqual([0, 1, 2]);
  expect(stage.expelled).toEqual([]);
});

test('rendezvous: a connected worker that does not come is expelled, and the others begin', () => {
  const stage = new Stage([0, 1, 2]);
  stage.come(1, 2);
  stage.pass(TIMEOUT_MS);
  expect(stage.expelled).toEqual([0]);
  expect(stage.heard()).toEqual([
    [1, world(0, 2)],
    [2, world(1, 2)],
  ]);
});

test('rendezvous: too few is TimedOut, for each at its own time, and says how many came', () => {
  const stage = new Stage([0, 1], { minWorkers: 3 });
  stage.come(0);
  stage.pass(300);
  stage.come(1);
  stage.pass(TIMEOUT_MS - 300);
  const message = 'rendezvous: 2 of at least 3 workers arrived within 1000 ms';
  expect(stage.heard()).toEqual([[0, { outcome: 'refused', code: 'TimedOut', message }]]);
  stage.leave(0);
  stage.pass(300);
  expect(stage.heard()).toMatchObject([[1, { code: 'TimedOut', message: expect.stringContaining('1 of') }]]);
});

test('rendezvous: workers that stay keep their order, and one that comes again is the last', () => {
  const stage = new Stage([0, 1, 2, 3]);
  stage.come(0, 1, 2, 3);
  stage.leave(0);
  stage.enter(4);
  stage.heard();
  stage.come(4, 3, 2, 1);
  expect(
    stage.heard().map(([worker, answer]) => [worker, answer.outcome === 'world' && answer.rank]),
  ).toEqual([
    [1, 0],
    [2, 1],
    [3, 2],
    [4, 3],
  ]);
});

test('rendezvous: one worker too many waits until another leaves, and from then on as long as all others', () => {
  const stage = new Stage([0, 1, 2], { maxWorkers: 2 });
  stage.come(0, 1, 2);
  expect(stage.heard()).toEqual([
    [0, world(0, 2)],
    [1, world(1, 2)],
  ]);
  expect(stage.vote(0, 0)).toEqual({ outcome: 'vote', isDue: false });
  stage.pass(TIMEOUT_MS - 1);
  stage.leave(0);
  stage.pass(TIMEOUT_MS - 1);
  expect(stage.expelled).toEqual([]);
  stage.come(1);
  expect(stage.heard()).toEqual([
    [1, world(0, 2)],
    [2, world(1, 2)],
  ]);
});

test('rendezvous: a worker that gets no place in time is TimedOut, and no other is expelled for it', () => {
  const stage = new Stage([0, 1, 2], { maxWorkers: 2 });
  stage.come(0, 1, 2);
  stage.heard();
  stage.pass(TIMEOUT_MS);
  const message = 'rendezvous: 2 workers train, and none left within 1000 ms';
  expect(stage.heard()).toEqual([[2, { outcome: 'refused', code: 'TimedOut', message }]]);
  expect(stage.expelled).toEqual([]);
});

test('vote: the first to ask decides for the step, so that all ranks go after the same one', () => {
  const stage = new Stage([0, 1]);
  stage.come(0, 1);
  stage.pass(LAST_CALL_MS);
  stage.heard();
  expect(stage.vote(0, 0)).toEqual({ outcome: 'vote', isDue: false });
  stage.enter(2);
  stage.come(2);
  expect(stage.vote(1, 0)).toEqual({ outcome: 'vote', isDue: false });
  expect(stage.vote(1, 1)).toEqual({ outcome: 'vote', isDue: true });
  stage.leave(2);
  expect(stage.vote(0, 1)).toEqual({ outcome: 'vote', isDue: true });
});

test('vote: after a worker left, and outside a world, it is yes', () => {
  const stage = new Stage([0, 1, 2]);
  stage.come(0, 1, 2);
  stage.pass(LAST_CALL_MS);
  stage.heard();
  expect(stage.vote(0, 0)).toEqual({ outcome: 'vote', isDue: false });
  stage.leave(0);
  expect(stage.vote(1, 0)).toEqual({ outcome: 'vote', isDue: true });
  stage.enter(3);
  expect(stage.vote(3, 0)).toEqual({ outcome: 'vote', isDue: true });
});

test('gather: all get what all brought, by rank, even if calls overlap', () => {
  const stage = new Stage([5, 6]);
  stage.come(5, 6);
  stage.pass(LAST_CALL_MS);
  stage.heard();
  stage.gather(6);
  stage.gather(6, { seq: 1, bytes: Uint8Array.of(60) });
  stage.gather(5);
  const parts = [Uint8Array.of(5), Uint8Array.of(6)];
  expect(stage.heard().sort(([a], [b]) => a - b)).toEqual([
    [5, { outcome: 'gathered', parts }],
    [6, { outcome: 'gathered', parts }],
  ]);
  stage.gather(5, { seq: 1, bytes: Uint8Array.of(50) });
  expect(stage.heard()).toHaveLength(2);
});

test('gather: when a worker is gone, fails, or has no data left, those who wait and those who come later hear of it', () => {
  const reasons: [(stage: Stage) => void, string][] = [
    [(stage) => stage.leave(2), 'rank 2 of 3 is gone'],
    [(stage) => stage.come(2), 'rank 2 of 3 went to a new rendezvous'],
    [(stage) => stage.finish(2), 'rank 2 of 3 has no data left'],
  ];
  for (const [happen, message] of reasons) {
    const stage = new Stage([0, 1, 2]);
    stage.come(0, 1, 2);
    stage.pass(LAST_CALL_MS);
    stage.gather(0);
    stage.heard();
    happen(stage);
    expect(stage.heard()).toContainEqual([0, recoverable(message)]);
    stage.gather(1);
    expect(stage.heard()).toEqual([[1, recoverable(message)]]);
  }
});

test('gather: a worker that does not come in time is expelled, and all waiting workers learn it at once', () => {
  const stage = new Stage([0, 1, 2, 3]);
  stage.come(0, 1, 2, 3);
  stage.heard();
  stage.gather(0);
  stage.pass(TIMEOUT_MS / 2);
  stage.gather(3);
  stage.pass(TIMEOUT_MS / 2 - 1);
  expect(stage.heard()).toEqual([]);
  stage.pass(1);
  const message = 'rank 1 of 4 did not arrive within 1000 ms';
  expect(stage.heard()).toEqual([
    [0, recoverable(message)],
    [3, recoverable(message)],
  ]);
  expect(stage.expelled).toEqual([1, 2]);
  stage.come(0, 3);
  stage.pass(LAST_CALL_MS);
  expect(stage.heard()).toEqual([
    [0, world(0, 2)],
    [3, world(1, 2)],
  ]);
});

test('gather: a worker in no world is told so', () => {
  const stage = new Stage([0]);
  stage.gather(0);
  expect(stage.heard()).toEqual([[0, recoverable('this worker is in no world')]]);
});

test('gather: ranks that call different things are told what they do wrong', () => {
  const stage = new Stage([0, 1]);
  stage.come(0, 1);
  stage.pass(LAST_CALL_MS);
  stage.heard();
  stage.gather(0, { call: 'allGather' });
  stage.gather(1, { call: 'barrier' });
  const message =
    'rank 1 calls barrier where others call allGather: all ranks must make the same calls in the same order';
  const refused = { outcome: 'refused', code: 'InvalidArgument', message };
  expect(stage.heard()).toEqual([
    [0, refused],
    [1, refused],
  ]);
});

test('gather: more than 1 GiB together is InvalidArgument for all', () => {
  const stage = new Stage([0, 1]);
  stage.come(0, 1);
  stage.pass(LAST_CALL_MS);
  stage.heard();
  // Never written to, so it takes no memory.
  const bytes = new Uint8Array(BODY_BYTES_MAX / 2 + 1);
  stage.gather(0, { bytes });
  stage.gather(1, { bytes });
  expect(stage.heard()).toMatchObject([
    [
      0,
      {
        code: 'InvalidArgument',
        message: 'allGather of 1073741826 bytes by 2 workers: at most 1073741824 together',
      },
    ],
    [1, { code: 'InvalidArgument' }],
  ]);
});

test('finish: waiting workers are told to stop, and so are those that come later', () => {
  const stage = new Stage([0, 1, 2]);
  stage.come(0, 1, 2);
  stage.pass(LAST_CALL_MS);
  stage.come(2);
  stage.heard();
  stage.finish(0);
  expect(stage.heard()).toEqual([
    [0, { outcome: 'done' }],
    [2, { outcome: 'stop' }],
  ]);
  expect(stage.vote(1, 0)).toEqual({ outcome: 'vote', isDue: true });
  stage.come(1);
  stage.enter(3);
  stage.come(3);
  expect(stage.heard()).toEqual([
    [1, { outcome: 'stop' }],
    [3, { outcome: 'stop' }],
  ]);
});

test('enter: a worker with another policy is refused, until the others have left', () => {
  const stage = new Stage([0]);
  expect(stage.enter(1, { minWorkers: 3 })).toBe(
    'minWorkers 3: the other workers have 2, and all must have the same',
  );
  expect(stage.enter(1, { timeoutMs: 5 })).toContain('timeoutMs 5');
  stage.leave(0);
  expect(stage.enter(1, { minWorkers: 3 })).toBeNull();
});
