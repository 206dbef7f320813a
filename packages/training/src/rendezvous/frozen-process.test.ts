/**
 * A process resumes after it was frozen: its timers are due, and its sockets hold what came in the
 * meantime. Here timers fire only when a test says so, at a moment when sockets are not read.
 */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { State } from '../state.ts';
import { afterEvents } from './awake-timer.ts';
import { FrameReader, writeFrame } from './frames.ts';
import { MultiProcessCoordinator } from './multi-process-coordinator.ts';
import { RendezvousServer } from './server.ts';

const TIMEOUT_MS = 60_000;
/** A worker waits three times as long for the server as for other workers. */
const ANSWER_MS = 3 * TIMEOUT_MS;

let aheadMs: number;

beforeEach(() => {
  aheadMs = 0;
  const now = performance.now.bind(performance);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
  return () => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  };
});

/** The process was frozen for this time, and resumes in this moment. */
function resumeAfter(timeMs: number): void {
  aheadMs += timeMs;
  vi.advanceTimersByTime(timeMs);
}

class NoState extends State {
  override async sync(): Promise<void> {} // no state to sync
}

async function connectTo(port: number): Promise<MultiProcessCoordinator> {
  const options = { port, minWorkers: 2, maxWorkers: 2, timeoutMs: TIMEOUT_MS };
  const coordinator = await MultiProcessCoordinator.connect(options);
  onTestFinished(() => coordinator.close());
  return coordinator;
}

/** A server that lets a worker join, and answers a rendezvous by `answer`. */
async function startScripted(answer: (socket: Socket, id: unknown) => void): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const reader = new FrameReader();
    sockets.push(socket);
    socket.on('data', (chunk: Buffer) => {
      for (const { header } of reader.push(chunk)) {
        if (header['type'] === 'join') writeFrame(socket, { id: header['id'], outcome: 'done' }, []);
        else answer(socket, header['id']);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const WORLD = { outcome: 'world', rank: 0, size: 2 };

test('a worker that waits at the rendezvous finds the answer that came meanwhile', async () => {
  const port = await startScripted((socket, id) => {
    writeFrame(socket, { id, ...WORLD }, []);
    resumeAfter(ANSWER_MS);
  });
  const worker = await connectTo(port);
  expect(await worker.rendezvous()).toMatchObject({ rank: 0, size: 2 });
});

test('a worker that the server has dropped meanwhile gets a RecoverableError, and joins again', async () => {
  let tryCount = 0;
  const port = await startScripted((socket, id) => {
    tryCount += 1;
    if (tryCount === 2) return writeFrame(socket, { id, ...WORLD }, []);
    socket.end();
    return resumeAfter(ANSWER_MS);
  });
  const worker = await connectTo(port);
  await expect(worker.rendezvous()).rejects.toMatchObject({ name: 'RecoverableError' });
  expect(await worker.rendezvous()).toMatchObject({ rank: 0, size: 2 });
});

test('a worker that was frozen together with the server waits again', async () => {
  const asked = Promise.withResolvers<[Socket, unknown]>();
  const worker = await connectTo(await startScripted((...call) => asked.resolve(call)));
  const waiting = worker.rendezvous();
  const [socket, id] = await asked.promise;
  aheadMs += 60 * TIMEOUT_MS;
  resumeAfter(ANSWER_MS);
  await new Promise<void>((resolve) => afterEvents(resolve));
  writeFrame(socket, { id, ...WORLD }, []);
  expect(await waiting).toMatchObject({ rank: 0, size: 2 });
});

test('a worker that is frozen while it connects is connected', async () => {
  const port = await startScripted((socket, id) => void writeFrame(socket, { id, ...WORLD }, []));
  const connecting = connectTo(port);
  resumeAfter(ANSWER_MS);
  expect(await (await connecting).rendezvous()).toMatchObject({ rank: 0 });
});

test('a server does not expel workers that came while it was frozen', async () => {
  await using server = await RendezvousServer.start({ lastCallMs: 0 });
  const [first, second] = [await connectTo(server.port), await connectTo(server.port)];
  await Promise.all([first.rendezvous(), second.rendezvous()]);
  const waiting = first.world.barrier();
  // The answer to this comes after the server has heard of the barrier.
  await first.shouldRendezvous(new NoState());
  const late = second.world.barrier();
  resumeAfter(TIMEOUT_MS);
  await Promise.all([waiting, late]);
});
