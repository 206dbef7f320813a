import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { isCheckpointError } from '@holdfast/core/contract';
import { expect, onTestFinished, test, vi } from 'vitest';
import { LocalCoordinator } from '../local-coordinator.ts';
import { State } from '../state.ts';
import { broadcast } from './broadcast.ts';
import { FrameReader, writeFrame } from './frames.ts';
import { MultiProcessCoordinator } from './multi-process-coordinator.ts';
import { RendezvousServer } from './server.ts';

/** Longer than anything takes here, even on a busy machine. */
const TIMEOUT_MS = 20_000;

class NoState extends State {
  override async sync(): Promise<void> {} // no state to sync
}
const STATE = new NoState();

async function startServer(): Promise<RendezvousServer> {
  const server = await RendezvousServer.start({ lastCallMs: 5 });
  onTestFinished(() => server.close());
  return server;
}

async function connectTo(
  { port }: { readonly port: number },
  options: { minWorkers?: number; maxWorkers?: number; timeoutMs?: number } = {},
): Promise<MultiProcessCoordinator> {
  const { minWorkers = 2, maxWorkers = 3, timeoutMs = TIMEOUT_MS } = options;
  const coordinator = await MultiProcessCoordinator.connect({ port, minWorkers, maxWorkers, timeoutMs });
  onTestFinished(() => coordinator.close());
  return coordinator;
}

async function meet(coordinators: readonly MultiProcessCoordinator[]): Promise<number[]> {
  const worlds = await Promise.all(coordinators.map((coordinator) => coordinator.rendezvous()));
  expect(worlds.every(({ size }) => size === coordinators.length)).toBe(true);
  return worlds.map(({ rank }) => rank);
}

/**
 * A server that answers by the type of the request, as `answers` says, and otherwise stays silent.
 */
async function startScripted(answers: Readonly<Record<string, Record<string, unknown>>>): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const reader = new FrameReader();
    sockets.push(socket);
    socket.on('data', (chunk: Buffer) => {
      for (const { header } of reader.push(chunk)) {
        const answer = answers[String(header['type'])];
        if (answer) writeFrame(socket, { id: header['id'], ...answer }, []);
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

test('group calls: all get what all bring, also 5 MiB of each', async () => {
  const server = await startServer();
  const workers = [await connectTo(server), await connectTo(server), await connectTo(server)];
  expect(await meet(workers)).toEqual([0, 1, 2]);
  const bytesOf = (rank: number) => Buffer.alloc(5 * 2 ** 20, rank + 1);
  const gathered = await Promise.all(workers.map(({ world }) => world.allGather(bytesOf(world.rank))));
  for (const parts of gathered) {
    expect(parts.map((part, rank) => bytesOf(rank).equals(part))).toEqual([true, true, true]);
  }
  const texts = await Promise.all(
    workers.map(({ world }) => broadcast(world, 1, Buffer.from(`of ${world.rank}`))),
  );
  expect(texts.map((bytes) => Buffer.from(bytes).toString())).toEqual(['of 1', 'of 1', 'of 1']);

  let passedCount = 0;
  const barriers = workers.map(
    ({ world }) =>
      () =>
        world.barrier().then(() => passedCount++),
  );
  const first = [barriers[0]?.(), barriers[1]?.()];
  await Promise.all(workers.map((worker) => worker.shouldRendezvous(STATE)));
  expect(passedCount).toBe(0);
  await Promise.all([...first, barriers[2]?.()]);
  expect(passedCount).toBe(3);
});

test('broadcast: a root that is no rank is InvalidArgument', async () => {
  const world = await new LocalCoordinator().rendezvous();
  expect(await broadcast(world, 0, Uint8Array.of(7))).toEqual(Uint8Array.of(7));
  for (const root of [1, -1, 0.5]) {
    const error = await broadcast(world, root, new Uint8Array()).catch((reason: unknown) => reason);
    expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
  }
});

test('shouldRendezvous: a newcomer is let in after the same step by all, and is the last rank', async () => {
  const server = await startServer();
  const old = [await connectTo(server), await connectTo(server)] as const;
  await meet(old);
  expect(await old[0].shouldRendezvous(STATE)).toBe(false);
  const newcomer = await connectTo(server);
  const joined = newcomer.rendezvous();
  // the same answer as rank 0 got for this step
  expect(await old[1].shouldRendezvous(STATE)).toBe(false);
  // The newcomer's request and these use different connections; once it has arrived, all get true.
  while (!(await old[0].shouldRendezvous(STATE))) expect(await old[1].shouldRendezvous(STATE)).toBe(false);
  expect(await old[1].shouldRendezvous(STATE)).toBe(true);
  expect(await Promise.all([...old.map((each) => each.rendezvous()), joined])).toMatchObject([
    { rank: 0, size: 3 },
    { rank: 1, size: 3 },
    { rank: 2, size: 3 },
  ]);
});

test('a worker that closes is missed at once: a barrier fails, and the others meet without it', async () => {
  const server = await startServer();
  const [first, second, third] = [await connectTo(server), await connectTo(server), await connectTo(server)];
  await meet([first, second, third]);
  const waiting = expect(second.world.barrier()).rejects.toMatchObject({
    name: 'RecoverableError',
    message: 'rank 0 of 3 is gone',
  });
  await first.close();
  await waiting;
  const old = second.world;
  expect(await third.shouldRendezvous(STATE)).toBe(true);
  expect(await meet([second, third])).toEqual([0, 1]);
  await expect(old.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
});

test('a worker that others have given up gets a RecoverableError, and can come again, as the last', async () => {
  const server = await startServer();
  const [slow, second, third] = [
    await connectTo(server, { minWorkers: 3, timeoutMs: 500 }),
    await connectTo(server, { minWorkers: 3, timeoutMs: 500 }),
    await connectTo(server, { minWorkers: 3, timeoutMs: 500 }),
  ];
  await meet([slow, second, third]);
  await Promise.all(
    [second, third].map(({ world }) =>
      expect(world.barrier()).rejects.toMatchObject({ message: 'rank 0 of 3 did not arrive within 500 ms' }),
    ),
  );
  await expect(slow.world.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
  expect(await slow.shouldRendezvous(STATE)).toBe(true);
  const late = slow.rendezvous();
  expect(await Promise.all([second.rendezvous(), third.rendezvous(), late])).toMatchObject([
    { rank: 0 },
    { rank: 1 },
    { rank: 2, size: 3 },
  ]);
});

test('signalTrainingDone: the others stop, and so do workers that come later', async () => {
  const server = await startServer();
  const [first, second] = [await connectTo(server), await connectTo(server)];
  await meet([first, second]);
  const waiting = expect(second.world.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
  await first.signalTrainingDone();
  expect(first.shouldStopTraining()).toBe(true);
  await expect(first.world.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
  await expect(first.rendezvous()).rejects.toMatchObject({ name: 'StopException' });
  await waiting;
  expect(await second.shouldRendezvous(STATE)).toBe(true);
  await expect(second.rendezvous()).rejects.toMatchObject({ name: 'StopException' });
  expect(second.shouldStopTraining()).toBe(true);
  const late = await connectTo(server);
  await expect(late.rendezvous()).rejects.toMatchObject({ name: 'StopException' });
});

test('signalTrainingDone: a worker that the others have given up says it all the same', async () => {
  const server = await startServer();
  const [slow, second] = [
    await connectTo(server, { timeoutMs: 500, minWorkers: 1 }),
    await connectTo(server, { timeoutMs: 500, minWorkers: 1 }),
  ];
  await meet([slow, second]);
  await expect(second.world.barrier()).rejects.toThrow('did not arrive');
  await expect(slow.world.barrier()).rejects.toThrow('the rendezvous connection is lost');
  await slow.signalTrainingDone();
  await expect(second.rendezvous()).rejects.toMatchObject({ name: 'StopException' });
});

test('connect: no server is Unavailable, other options than the others have and those out of range are InvalidArgument', async () => {
  const server = await startServer();
  await connectTo(server);
  await expect(connectTo(server, { maxWorkers: 4 })).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: 'maxWorkers 4: the other workers have 3, and all must have the same',
  });
  for (const wrong of [{ minWorkers: 0 }, { maxWorkers: 1 }, { maxWorkers: 1025 }, { timeoutMs: 0 }]) {
    await expect(connectTo(server, wrong)).rejects.toMatchObject({ code: 'InvalidArgument' });
  }
  await expect(connectTo({ port: 65_536 })).rejects.toMatchObject({ code: 'InvalidArgument' });
  await server.close();
  await expect(connectTo(server)).rejects.toMatchObject({ code: 'Unavailable' });
});

test('start: a port or a last call out of range is InvalidArgument, a port that is taken the error of the system', async () => {
  const { port } = await startServer();
  await expect(RendezvousServer.start({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  await expect(RendezvousServer.start({ port: -1 })).rejects.toMatchObject({ code: 'InvalidArgument' });
  await expect(RendezvousServer.start({ lastCallMs: 0.5 })).rejects.toMatchObject({
    code: 'InvalidArgument',
  });
});

test('the server ends: a waiting worker gets a RecoverableError, and the next rendezvous is Unavailable', async () => {
  const server = await startServer();
  const [first, second] = [await connectTo(server), await connectTo(server)];
  await meet([first, second]);
  const waiting = expect(first.world.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
  await server.close();
  await server.close();
  await waiting;
  expect(await second.shouldRendezvous(STATE)).toBe(true);
  await expect(second.rendezvous()).rejects.toMatchObject({ code: 'Unavailable' });
});

test('a server that is silent: connecting is TimedOut, and so is a rendezvous; group calls are recoverable', async () => {
  const silent = await startScripted({});
  await expect(connectTo({ port: silent }, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'TimedOut' });
  const deaf = await startScripted({ join: { outcome: 'done' } });
  const worker = await connectTo({ port: deaf }, { timeoutMs: 20 });
  expect(() => worker.world).toThrow('there is no world before the first rendezvous');
  expect(await worker.shouldRendezvous(STATE)).toBe(true);
  await expect(worker.rendezvous()).rejects.toMatchObject({ code: 'TimedOut' });
  const lazy = await startScripted({
    join: { outcome: 'done' },
    rendezvous: { outcome: 'world', rank: 0, size: 2 },
  });
  const lonely = await connectTo({ port: lazy }, { timeoutMs: 20 });
  const world = await lonely.rendezvous();
  await expect(world.barrier()).rejects.toMatchObject({
    name: 'RecoverableError',
    cause: { code: 'TimedOut' },
  });
});

test('a server that is something else: what it says is refused', async () => {
  const odd = await startScripted({ join: { outcome: 'world', rank: 0, size: 1 } });
  await expect(connectTo({ port: odd })).rejects.toMatchObject({ code: 'Unexpected' });
  const odder = await startScripted({ join: { outcome: 'hello' } });
  await expect(connectTo({ port: odder })).rejects.toMatchObject({ code: 'InvalidArgument' });
  const http = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(
    0,
    '127.0.0.1',
  );
  await once(http, 'listening');
  onTestFinished(() => {
    http.close();
  });
  const { port } = http.address() as AddressInfo;
  await expect(connectTo({ port })).rejects.toMatchObject({
    name: 'RecoverableError',
    message: expect.stringContaining('are accepted in a rendezvous'),
  });
});

test('a connection with another protocol, or that has not joined, is cut off, and no other is affected', async () => {
  const server = await startServer();
  const workers = [await connectTo(server), await connectTo(server)];
  await meet(workers);
  for (const say of [
    (socket: Socket) => socket.write('GET / HTTP/1.1\r\n\r\n'),
    (socket: Socket) => writeFrame(socket, { id: 0, type: 'rendezvous' }, []),
  ]) {
    const stranger = connect(server.port, '127.0.0.1');
    stranger.on('error', () => stranger.destroy());
    const closed = new Promise((resolve) => stranger.once('close', resolve));
    stranger.resume();
    say(stranger);
    await closed;
  }
  await Promise.all(workers.map(({ world }) => world.barrier()));
});

test('a connection that does not join is cut off in time, and no other', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const server = await startServer();
  const stranger = connect(server.port, '127.0.0.1').resume();
  await once(stranger, 'connect');
  // The server accepts connections in order, so the stranger is connected once this one is
  // answered.
  const worker = await connectTo(server, { minWorkers: 1, maxWorkers: 1, timeoutMs: 60_000 });
  const closed = once(stranger, 'close');
  vi.advanceTimersByTime(29_999);
  expect((await worker.rendezvous()).size).toBe(1);
  expect(stranger.destroyed).toBe(false);
  vi.advanceTimersByTime(1);
  await closed;
  await worker.world.barrier();
});

test('close: a worker that waits hears of it, and stops', async () => {
  const server = await startServer();
  const workers = [await connectTo(server), await connectTo(server)] as const;
  await meet(workers);
  const waiting = expect(workers[0].world.barrier()).rejects.toMatchObject({ name: 'RecoverableError' });
  await workers[0].close();
  await waiting;
  expect(workers[0].shouldStopTraining()).toBe(true);
  await expect(workers[0].rendezvous()).rejects.toMatchObject({ name: 'StopException' });
});

test('a contribution above 1 GiB is InvalidArgument, and nothing is sent', async () => {
  const server = await startServer();
  const worker = await connectTo(server, { minWorkers: 1 });
  const world = await worker.rendezvous();
  // Never written to, so it takes no memory.
  const error = await world.allGather(new Uint8Array(2 ** 30 + 1)).catch((reason: unknown) => reason);
  expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
  await world.barrier();
});
