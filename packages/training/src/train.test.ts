import { CheckpointError, type Logger } from '@holdfast/core/contract';
import { afterEach, describe, expect, it } from 'vitest';
import type { TrainingCheckpoint, TrainingCheckpointManager } from './checkpoints.ts';
import type { Coordinator, World } from './coordinator.ts';
import { NonRetryableException, RecoverableError, StopException, StopIteration } from './errors.ts';
import { setCheckpointManager } from './registry.ts';
import { State } from './state.ts';
import { train } from './train.ts';

/** Calls in the order in which they were made. */
let calls: string[] = [];

const logger: Logger = {
  log: (level, message) => {
    if (level === 'warn') calls.push(`warn: ${message}`);
  },
};

class Counter extends State<number> {
  value = 0;
  hasRollback = true;
  savesEachStep = false;
  failSync: Error | null = null;

  async sync(worldSize: number, rank: number): Promise<void> {
    calls.push(`sync ${rank} of ${worldSize}`);
    const failure = this.failSync;
    this.failSync = null;
    if (failure) throw failure;
  }

  override snapshot(): number | null {
    calls.push('snapshot');
    return this.hasRollback ? this.value : null;
  }

  override apply(snapshot: number | null): void {
    calls.push(`apply ${snapshot}`);
    this.value = snapshot ?? Number.NaN;
  }

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    const writer = stream.getWriter();
    await writer.write(Uint8Array.of(this.value));
    writer.releaseLock();
  }

  override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const [value] of stream) this.value = value ?? Number.NaN;
  }

  override shouldSaveCheckpoint(): boolean {
    return this.savesEachStep;
  }
}

/** A rank of a scripted world: the bytes of the other ranks, and what fails. */
class ScriptedCoordinator implements Coordinator {
  readonly rank: number;
  readonly othersHaveState: boolean;
  worldCount = 0;
  isDone = false;
  isSaveDue = false;
  newWorldAfterSteps: number[] = [];
  failRendezvous: Error[] = [];
  failBarrier: Error[] = [];
  #stepCount = 0;

  constructor({ rank = 0, othersHaveState = false } = {}) {
    this.rank = rank;
    this.othersHaveState = othersHaveState;
  }

  async rendezvous(): Promise<World> {
    calls.push('rendezvous');
    const failure = this.failRendezvous.shift();
    if (failure) throw failure;
    this.worldCount += 1;
    return {
      rank: this.rank,
      size: 2,
      allGather: async (bytes) => {
        calls.push(`allGather ${bytes[0]}`);
        const other = Uint8Array.of(this.othersHaveState ? 1 : 0);
        return this.rank === 0 ? [bytes, other] : [other, bytes];
      },
      barrier: async () => {
        calls.push('barrier');
        const failed = this.failBarrier.shift();
        if (failed && failed !== NOTHING) throw failed;
      },
    };
  }

  shouldSaveCheckpoint(): boolean {
    return this.isSaveDue;
  }

  async shouldRendezvous(): Promise<boolean> {
    this.#stepCount += 1;
    return this.newWorldAfterSteps.includes(this.#stepCount);
  }

  shouldStopTraining(): boolean {
    return this.isDone;
  }

  async signalTrainingDone(): Promise<void> {
    calls.push('done');
    this.isDone = true;
  }

  monitorProgress(_state: unknown, stats: unknown): void {
    calls.push(`monitor ${stats}`);
  }

  reportProgress(): void {
    calls.push('report');
  }

  onError(error: unknown): void {
    calls.push(`onError ${(error as Error).message}`);
  }
}

const NOTHING = new Error('does not fail');

/** Keeps checkpoints in memory and records the calls. */
class MemoryManager implements TrainingCheckpointManager {
  readonly committed = new Map<bigint, Uint8Array | Error>();
  fail: { create?: Error; write?: Error; commit?: Error; discard?: Error } = {};

  async create(): Promise<TrainingCheckpoint> {
    calls.push('create');
    if (this.fail.create) throw this.fail.create;
    const version = BigInt(this.committed.size);
    let bytes = new Uint8Array();
    return {
      version,
      openOutputStream: (key) =>
        new WritableStream({
          start: () => void calls.push(`open ${key}`),
          write: (chunk) => {
            if (this.fail.write) throw this.fail.write;
            bytes = chunk.slice();
          },
          close: () => void calls.push('close'),
        }),
      openInputStream: () => expect.unreachable('it is not committed'),
      commit: async () => {
        calls.push(`commit ${version}`);
        if (this.fail.commit) throw this.fail.commit;
        this.committed.set(version, bytes);
      },
      discard: async () => {
        calls.push(`discard ${version}`);
        if (this.fail.discard) throw this.fail.discard;
      },
    };
  }

  async get(version: bigint): Promise<TrainingCheckpoint | null> {
    const found = this.committed.get(version);
    if (found === undefined) return null;
    return {
      version,
      openOutputStream: () => expect.unreachable('it is committed'),
      openInputStream: (key) => {
        calls.push(`load ${version} ${key}`);
        if (found instanceof Error) throw found;
        return ReadableStream.from([found]);
      },
      commit: async () => undefined,
      discard: async () => undefined,
    };
  }

  async latest(): Promise<TrainingCheckpoint | null> {
    const [newest] = await this.list();
    return newest ? this.get(newest.version) : null;
  }

  async list(): Promise<readonly { readonly version: bigint }[]> {
    return [...this.committed.keys()].toReversed().map((version) => ({ version }));
  }
}

/** Adds 1 up to `until`; before each of these steps it runs the function in `before`. */
function counting(until: number, before: Readonly<Record<number, () => void>> = {}) {
  let stepCount = 0;
  return async (state: Counter) => {
    stepCount += 1;
    calls.push(`step ${stepCount}`);
    if (state.value === until) throw new StopIteration('no data left');
    state.value += 1;
    before[stepCount]?.();
    return `stats ${state.value}`;
  };
}

const failing = (error: Error) => () => {
  throw error;
};

afterEach(() => {
  calls = [];
  setCheckpointManager(null);
});

describe('train: order', () => {
  it('is snapshot, rendezvous, load, sync; then snapshot, step, save, by each step', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(4));
    setCheckpointManager(manager);
    const state = new Counter();
    state.savesEachStep = true;
    expect(await train(new ScriptedCoordinator(), counting(5), state, { logger })).toBe(state);
    expect(state.value).toBe(5);
    expect(calls).toEqual([
      ...['snapshot', 'rendezvous', 'allGather 0', 'load 0 default', 'sync 0 of 2', 'barrier'],
      ...['snapshot', 'step 1', 'monitor stats 5'],
      ...['create', 'open default', 'close', 'commit 1', 'barrier', 'report'],
      ...['snapshot', 'step 2', 'done'],
    ]);
    expect(manager.committed.get(1n)).toEqual(Uint8Array.of(5));
  });

  it('a new world is met without rollback, without another load, and before progress is reported', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(1));
    setCheckpointManager(manager);
    const coordinator = new ScriptedCoordinator();
    coordinator.newWorldAfterSteps = [1];
    await train(coordinator, counting(3), new Counter(), { logger });
    expect(calls.slice(6)).toEqual([
      ...['snapshot', 'step 1', 'monitor stats 2'],
      ...['snapshot', 'rendezvous', 'allGather 1', 'sync 0 of 2', 'barrier'],
      ...['snapshot', 'step 2', 'monitor stats 3', 'report', 'snapshot', 'step 3', 'done'],
    ]);
  });

  it('a coordinator that ends training before it began is asked for nothing', async () => {
    const coordinator = new ScriptedCoordinator();
    coordinator.isDone = true;
    await train(coordinator, counting(3), new Counter(), { logger });
    expect(calls).toEqual([]);
  });
});

describe('train: loading', () => {
  it.each([
    { title: 'rank 0 loads', rank: 0, othersHaveState: false, loads: 1 },
    { title: 'no other rank does', rank: 1, othersHaveState: false, loads: 0 },
    {
      title: 'a new rank 0 does not, if another worker has a state',
      rank: 0,
      othersHaveState: true,
      loads: 0,
    },
  ])('$title', async ({ rank, othersHaveState, loads }) => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(2));
    setCheckpointManager(manager);
    const state = new Counter();
    await train(new ScriptedCoordinator({ rank, othersHaveState }), counting(2), state, { logger });
    expect(calls.filter((call) => call.startsWith('load'))).toHaveLength(loads);
  });

  it('is repeated when the sync after it fails, because the loaded state is not kept', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(2));
    setCheckpointManager(manager);
    const state = new Counter();
    state.failSync = new RecoverableError('a worker is gone');
    await train(new ScriptedCoordinator(), counting(2), state, { logger });
    expect(calls.slice(0, 13)).toEqual([
      ...['snapshot', 'rendezvous', 'allGather 0', 'load 0 default', 'sync 0 of 2'],
      ...['onError a worker is gone', 'warn: recoverable failure 1: a worker is gone', 'apply 0'],
      ...['snapshot', 'rendezvous', 'allGather 0', 'load 0 default', 'sync 0 of 2'],
    ]);
  });

  it('is repeated when a worker is lost before all have synced', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(2));
    setCheckpointManager(manager);
    const coordinator = new ScriptedCoordinator();
    coordinator.failBarrier = [new RecoverableError('a worker is gone')];
    const state = new Counter();
    await train(coordinator, counting(2), state, { logger });
    expect(calls.filter((call) => call.startsWith('load'))).toHaveLength(2);
    expect(state.value).toBe(2);
  });

  it('a state that no checkpoint can be loaded into ends the worker: it never begins from scratch unasked', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, new CheckpointError('Corrupt', 'bad checksum'));
    setCheckpointManager(manager);
    await expect(train(new ScriptedCoordinator(), counting(2), new Counter(), { logger })).rejects.toThrow(
      'bad checksum',
    );
    expect(calls.at(-1)).toBe('onError bad checksum');
  });
});

describe('train: failures', () => {
  it('recoverable: the snapshot is applied to the same object, the workers meet again, nothing is loaded', async () => {
    const manager = new MemoryManager();
    manager.committed.set(0n, Uint8Array.of(1));
    setCheckpointManager(manager);
    const state = new Counter();
    const step = counting(3, { 2: failing(new RecoverableError('a worker is gone')) });
    expect(await train(new ScriptedCoordinator(), step, state, { logger })).toBe(state);
    expect(calls.slice(10, 22)).toEqual([
      ...['snapshot', 'step 2', 'onError a worker is gone'],
      ...['warn: recoverable failure 1: a worker is gone', 'apply 2'],
      ...['snapshot', 'rendezvous', 'allGather 1', 'sync 0 of 2', 'barrier', 'snapshot', 'step 3'],
    ]);
    expect(state.value).toBe(3);
  });

  it('recoverable, without snapshots: what the step did stays', async () => {
    const state = new Counter();
    state.hasRollback = false;
    const step = counting(3, { 2: failing(new RecoverableError('a worker is gone')) });
    await train(new ScriptedCoordinator(), step, state, { logger });
    expect(calls.filter((call) => call.startsWith('apply'))).toEqual([]);
    expect(calls.filter((call) => call.startsWith('step'))).toEqual(['step 1', 'step 2', 'step 3', 'step 4']);
    expect(state.value).toBe(3);
  });

  it.each([
    { title: 'any other error', error: new TypeError('x is undefined') },
    { title: 'NonRetryableException', error: new NonRetryableException('wrong machine') },
    { title: 'an error of a store', error: new CheckpointError('Unavailable', 'no answer') },
  ])('$title in a step is rethrown without rollback', async ({ error }) => {
    const state = new Counter();
    const training = train(new ScriptedCoordinator(), counting(3, { 2: failing(error) }), state, { logger });
    await expect(training).rejects.toBe(error);
    expect(calls.at(-1)).toBe(`onError ${error.message}`);
    expect(state.value).toBe(2);
  });

  it('the rendezvous: a recoverable failure is repeated, another ends the worker', async () => {
    const coordinator = new ScriptedCoordinator();
    coordinator.failRendezvous = [new RecoverableError('too few'), new Error('no such host')];
    await expect(train(coordinator, counting(3), new Counter(), { logger })).rejects.toThrow('no such host');
    expect(calls.filter((call) => call === 'rendezvous')).toHaveLength(2);
  });

  it('StopException leaves, from the rendezvous and from a step', async () => {
    const coordinator = new ScriptedCoordinator();
    coordinator.failRendezvous = [new StopException('the rendezvous is closed')];
    await train(coordinator, counting(3), new Counter(), { logger });
    expect(calls).toEqual(['snapshot', 'rendezvous']);

    const state = new Counter();
    const step = counting(3, { 2: failing(new StopException('enough')) });
    await train(new ScriptedCoordinator(), step, state, { logger });
    expect(calls.at(-1)).toBe('step 2');
  });

  it('100 recoverable ones are one too many', async () => {
    const always = failing(new RecoverableError('again'));
    const training = train(new ScriptedCoordinator(), always, new Counter(), { logger });
    const message = 'Exceeded max number of recoverable failures: 100';
    await expect(training).rejects.toThrow(new NonRetryableException(message));
    expect(calls.filter((call) => call === 'onError again')).toHaveLength(100);
    expect(calls.at(-1)).toBe(`onError ${message}`);
  });

  it('failuresMax sets another number; any other value is InvalidArgument', async () => {
    const always = failing(new RecoverableError('again'));
    const training = train(new ScriptedCoordinator(), always, new Counter(), { logger, failuresMax: 5 });
    await expect(training).rejects.toThrow('Exceeded max number of recoverable failures: 5');
    for (const failuresMax of [0, -1, 1.5, Number.NaN]) {
      await expect(
        train(new ScriptedCoordinator(), always, new Counter(), { failuresMax }),
      ).rejects.toMatchObject({ code: 'InvalidArgument' });
    }
  });
});

describe('train: saving', () => {
  it('happens if the coordinator says so, or the state; otherwise there is no wait', async () => {
    const manager = new MemoryManager();
    setCheckpointManager(manager);
    const coordinator = new ScriptedCoordinator();
    const step = counting(3, {
      1: () => {
        coordinator.isSaveDue = true;
      },
      2: () => {
        coordinator.isSaveDue = false;
      },
    });
    await train(coordinator, step, new Counter(), { logger });
    expect([...manager.committed]).toEqual([[0n, Uint8Array.of(1)]]);
    expect(calls.filter((call) => call === 'barrier')).toHaveLength(2);
  });

  it('a rank other than 0 writes nothing, and meets the barrier', async () => {
    setCheckpointManager(new MemoryManager());
    const state = new Counter();
    state.savesEachStep = true;
    await train(new ScriptedCoordinator({ rank: 1 }), counting(1), state, { logger });
    expect(calls).not.toContain('create');
    expect(calls.filter((call) => call === 'barrier')).toHaveLength(2);
  });

  it('without a manager nothing is saved, and there is no wait', async () => {
    const state = new Counter();
    state.savesEachStep = true;
    await train(new ScriptedCoordinator(), counting(1), state, { logger });
    expect(calls.filter((call) => call === 'barrier')).toHaveLength(1);
  });

  it.each([
    { at: 'create', error: new RecoverableError('busy'), discards: 0 },
    { at: 'write', error: new CheckpointError('Unavailable', 'no answer'), discards: 1 },
    { at: 'commit', error: new CheckpointError('OutcomeUnknown', 'no answer'), discards: 1 },
  ])(
    'a passing failure of $at is told and discarded, the step is kept, training goes on',
    async ({ at, error, discards }) => {
      const manager = new MemoryManager();
      manager.fail = { [at]: error };
      setCheckpointManager(manager);
      const coordinator = new ScriptedCoordinator();
      const state = new Counter();
      coordinator.isSaveDue = true;
      const step = counting(2, {
        2: () => {
          manager.fail = {};
        },
      });
      await train(coordinator, step, state, { logger });
      expect(calls.filter((call) => call.startsWith('discard'))).toHaveLength(discards);
      expect(calls).toContain(`onError ${error.message}`);
      expect(calls).toContain(`warn: a checkpoint could not be saved; training continues: ${error.message}`);
      expect(calls.filter((call) => /^(apply|rendezvous)/.test(call))).toEqual(['rendezvous']);
      expect([...manager.committed]).toEqual([[0n, Uint8Array.of(2)]]);
    },
  );

  it('a lasting failure ends rank 0, discarded, after the others were met', async () => {
    const manager = new MemoryManager();
    const error = new CheckpointError('Denied', 'not yours');
    manager.fail = { commit: error };
    setCheckpointManager(manager);
    const state = new Counter();
    state.savesEachStep = true;
    await expect(train(new ScriptedCoordinator(), counting(2), state, { logger })).rejects.toBe(error);
    expect(calls.slice(-4)).toEqual(['commit 0', 'discard 0', 'barrier', 'onError not yours']);
  });

  it('a discard that fails too does not hide why the save failed', async () => {
    const manager = new MemoryManager();
    const error = new CheckpointError('StorageFull', 'disk full');
    manager.fail = { write: error, discard: new Error('cannot remove') };
    setCheckpointManager(manager);
    const state = new Counter();
    state.savesEachStep = true;
    await expect(train(new ScriptedCoordinator(), counting(2), state, { logger })).rejects.toBe(error);
    expect(calls).toContain('warn: checkpoint 0, which failed, could not be discarded');
  });

  it('a worker lost in the barrier undoes the step, whether the save went well or not', async () => {
    for (const fail of [{}, { commit: new RecoverableError('busy') }]) {
      calls = [];
      const manager = new MemoryManager();
      manager.fail = fail;
      setCheckpointManager(manager);
      const coordinator = new ScriptedCoordinator();
      coordinator.failBarrier = [NOTHING, new RecoverableError('a worker is gone')];
      const state = new Counter();
      state.savesEachStep = true;
      await train(coordinator, counting(1), state, { logger });
      expect(calls).toContain('apply 0');
      expect(coordinator.worldCount).toBe(2);
    }
  });

  it('a state that closes its stream, as pipeTo does, is served as well', async () => {
    const manager = new MemoryManager();
    setCheckpointManager(manager);
    class Piping extends Counter {
      override async save(stream: WritableStream<Uint8Array>): Promise<void> {
        await ReadableStream.from([Uint8Array.of(this.value)]).pipeTo(stream);
      }
    }
    const state = new Piping();
    state.savesEachStep = true;
    await train(new ScriptedCoordinator(), counting(1), state, { logger });
    expect(manager.committed.get(0n)).toEqual(Uint8Array.of(1));
  });
});
