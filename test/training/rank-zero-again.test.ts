/**
 * A worker loses rank 0 to another one, and becomes rank 0 again. A run admits an attempt once, so
 * the worker needs a new manager then.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunManager } from '@holdfast/core';
import {
  AsyncSaver,
  FileSystemCheckpointManager,
  LocalCoordinator,
  RecoverableError,
  State,
  StopIteration,
  setCheckpointManager,
  train,
  type World,
} from '@holdfast/training';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { bytes, newBucket, open } from '../manager/memory-run.ts';

let bucket: ReturnType<typeof newBucket>;
let warnings: string[];
/** The managers that the loop has opened. */
let opened: RunManager[];

beforeEach(() => {
  bucket = newBucket();
  warnings = [];
  opened = [];
});
afterEach(() => setCheckpointManager(null));

const logger = { log: (level: string, message: string) => void (level === 'warn' && warnings.push(message)) };

function opener(): RunManager {
  const manager = open(bucket);
  vi.spyOn(manager, 'close');
  opened.push(manager);
  return manager;
}

/** Another worker of the job is rank 0, and saves. */
async function otherSaves(): Promise<void> {
  await using other = open(bucket);
  await other.save({ buffers: { default: bytes(10) } });
}

async function versions(): Promise<bigint[]> {
  await using reader = open(bucket);
  return (await reader.list()).map(({ version }) => version).toReversed();
}

/** One world for each of `ranks`, of one step each. */
class Worlds extends LocalCoordinator {
  readonly ranks: number[];
  /** The next barrier after a save fails. */
  isGivenUp = false;

  constructor(...ranks: number[]) {
    super();
    this.ranks = ranks;
  }

  override async rendezvous(): Promise<World> {
    const world = await super.rendezvous();
    const rank = this.ranks.shift() ?? 0;
    const barrier = async () => {
      if (this.isGivenUp) {
        this.isGivenUp = false;
        throw new RecoverableError('the others have given this worker up');
      }
    };
    return { ...world, rank, size: 2, barrier };
  }

  override shouldRendezvous(): boolean {
    return true;
  }
}

class Counter extends State<number> {
  value = 0;
  isDue = true;
  /** Called in the middle of a save. */
  whileSaving: () => Promise<void> = async () => undefined;

  override async sync(): Promise<void> {} // the other worker is only a script
  override snapshot = () => this.value;
  override apply = (value: number) => {
    this.value = value;
  };
  override shouldSaveCheckpoint = () => this.isDue;

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    await this.whileSaving();
    await ReadableStream.from([Uint8Array.of(this.value)]).pipeTo(stream);
  }

  override load = async () => undefined;
}

/** Trains `until` steps; `during` runs in the step of its number, counted from 1. */
function counting(until: number, during: Readonly<Record<number, () => unknown>> = {}) {
  return async (state: Counter) => {
    if (state.value === until) throw new StopIteration();
    state.value++;
    await during[state.value]?.();
  };
}

test('with a function as manager it saves in all its turns, each with a manager of its own', async () => {
  setCheckpointManager(opener);
  await train(new Worlds(0, 1, 0), counting(3, { 2: otherSaves }), new Counter(), { logger });
  expect(await versions()).toEqual([0n, 1n, 2n]);
  expect(opened.map(({ close }) => vi.mocked(close).mock.calls.length)).toEqual([1, 1]);
  expect(warnings).toEqual([]);
});

test('with a manager it ends with Fenced, and the error says what to do', async () => {
  await using manager = open(bucket);
  const trained = (options: object) =>
    train(new Worlds(0, 1, 0), counting(3, { 2: otherSaves }), new Counter(), { logger, ...options });
  setCheckpointManager(manager);
  await expect(trained({})).rejects.toMatchObject({
    code: 'Fenced',
    context: { overtakenBy: 'attempt' },
    message: expect.stringContaining('give setCheckpointManager a function that opens a manager'),
  });
  await using second = open(bucket);
  setCheckpointManager(second);
  await using saver = new AsyncSaver(second);
  const saves = async () => {
    await saver.settled();
    await otherSaves();
  };
  await expect(
    train(new Worlds(0, 1, 0, 0), counting(4, { 2: saves }), new Counter(), { logger, saver }),
  ).rejects.toMatchObject({ code: 'Fenced', message: expect.stringContaining('start this worker again') });
});

test('a worker that stays rank 0 keeps its manager; after a failure it opens another', async () => {
  setCheckpointManager(opener);
  await train(new Worlds(0, 0, 0), counting(3), new Counter(), { logger });
  expect([opened.length, await versions()]).toEqual([1, [0n, 1n, 2n]]);
  let hasFailed = false;
  const lose = async () => {
    if (hasFailed) return;
    hasFailed = true;
    await otherSaves();
    throw new RecoverableError('the others have given this worker up');
  };
  await train(new Worlds(0, 0, 0), counting(3, { 2: lose }), new Counter(), { logger });
  expect([opened.length, await versions()]).toEqual([3, [0n, 1n, 2n, 3n, 4n, 5n, 6n]]);
});

test('a worker that was frozen in a save goes back and joins the others', async () => {
  setCheckpointManager(opener);
  const coordinator = new Worlds(0, 1, 0);
  const state = new Counter();
  state.whileSaving = async () => {
    state.whileSaving = async () => undefined;
    await otherSaves();
    coordinator.isGivenUp = true;
  };
  await train(coordinator, counting(3), state, { logger });
  expect(warnings).toEqual([
    expect.stringContaining('a checkpoint could not be saved; training continues'),
    'recoverable failure 1: the others have given this worker up',
  ]);
  expect(await versions()).toEqual([0n, 1n, 2n]);
  expect(opened).toHaveLength(2);
});

test('a worker that was frozen in a save to a directory does not hide newer checkpoints', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-rank-zero-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const manager = new FileSystemCheckpointManager(directory);
  setCheckpointManager(manager);
  const coordinator = new Worlds(0, 1, 0);
  const state = new Counter();
  state.whileSaving = async () => {
    state.whileSaving = async () => undefined;
    const newer = await new FileSystemCheckpointManager(directory).create();
    await ReadableStream.from([Uint8Array.of(77)]).pipeTo(newer.openOutputStream('default'));
    await newer.commit();
    coordinator.isGivenUp = true;
  };
  await train(coordinator, counting(3), state, { logger });
  expect(warnings).toEqual([
    expect.stringContaining('checkpoint 0 was committed after this one began as 0'),
    'recoverable failure 1: the others have given this worker up',
  ]);
  expect((await manager.list()).map(({ version }) => version)).toEqual([2n, 1n, 0n]);
  expect(await readFile(join(directory, '0', 'default'))).toEqual(Buffer.of(77));
  expect(await readFile(join(directory, '2', 'default'))).toEqual(Buffer.of(3));
});

test('it joins at once: a worker that is frozen before its first save does not take the run over', async () => {
  setCheckpointManager(opener);
  await expect(
    train(new Worlds(0), counting(1, { 1: otherSaves }), new Counter(), { logger }),
  ).rejects.toMatchObject({ code: 'Fenced', context: { overtakenBy: 'attempt' } });
  expect(await versions()).toEqual([0n]);
  expect(vi.mocked(opened[0]!.close)).toHaveBeenCalledOnce();
});

test('a saver keeps its manager: a function beside it is InvalidArgument', async () => {
  setCheckpointManager(opener);
  await using manager = open(bucket);
  await using saver = new AsyncSaver(manager);
  await expect(train(new Worlds(0), counting(1), new Counter(), { logger, saver })).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining('a saver keeps'),
  });
  expect(opened).toEqual([]);
});
