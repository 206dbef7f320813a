/**
 * torchelastic's table "Rollback versus Checkpoint", row by row: first what a row says of rollbacks, then what it says of checkpoints, the
 * latter by each kind of manager. Where code and table differed the test says what holds here; docs/training.md says why.
 */

import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openCheckpointManager } from '@holdfast/stores';
import {
  FileSystemCheckpointManager,
  LocalCoordinator,
  RecoverableError,
  State,
  StopIteration,
  setCheckpointManager,
  type TrainingCheckpointManager,
  train,
} from '@holdfast/training';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const silent = { logger: { log: () => undefined } };

/** Sums up its data; writes down which of its methods were called. */
class Sum extends State<{ sum: number; place: number }> {
  sum = 0;
  place = 0;
  savesEachStep = false;
  calls: string[] = [];

  async sync(): Promise<void> {
    this.calls.push('sync');
  }

  override snapshot(): { sum: number; place: number } | null {
    this.calls.push('snapshot');
    return { sum: this.sum, place: this.place };
  }

  override apply(snapshot: { sum: number; place: number } | null): void {
    this.calls.push('apply');
    Object.assign(this, snapshot);
  }

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    this.calls.push('save');
    const writer = stream.getWriter();
    await writer.write(Buffer.from(JSON.stringify([this.sum, this.place])));
    writer.releaseLock();
  }

  override async load(stream: ReadableStream<Uint8Array>): Promise<void> {
    this.calls.push('load');
    [this.sum, this.place] = (await new Response(stream).json()) as [number, number];
  }

  override shouldSaveCheckpoint(): boolean {
    return this.savesEachStep;
  }
}

/** Without rollback: nothing to go back to. */
class SumWithoutSnapshot extends Sum {
  override snapshot(): null {
    return null;
  }
}

/** Adds 1, 2, … `last`; an error in the step after `place` data, once, when half of it is done. */
function adding(last: number, { error, after }: { error?: Error; after?: number } = {}) {
  let isDue = error !== undefined;
  return (state: Sum) => {
    state.calls.push('step');
    if (state.place === last) throw new StopIteration('no data left');
    state.place += 1;
    if (isDue && state.place === (after ?? 0) + 1) {
      isDue = false;
      throw error;
    }
    state.sum += state.place;
  };
}

/** The whole job is lost: nobody has caught it, and nothing in memory is left. */
const lost = new Error('the machine is gone');
const recoverable = () => new RecoverableError('all_reduce: a worker is gone');

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-rollback-table-'));
});

afterEach(async () => {
  setCheckpointManager(null);
  await rm(directory, { recursive: true });
});

const run = (state: Sum, step: (state: Sum) => void) => train(new LocalCoordinator(), step, state, silent);

const count = (state: Sum, call: string) => state.calls.filter((each) => each === call).length;

describe('Rollback', () => {
  it('Persistence: in memory: nothing is written, and a new process begins anew', async () => {
    await expect(run(new Sum(), adding(5, { error: lost, after: 3 }))).rejects.toBe(lost);
    expect(await readdir(directory)).toEqual([]);
    const state = new Sum();
    await run(state, adding(5));
    expect(count(state, 'step')).toBe(6);
    expect(state.sum).toBe(15);
  });

  it('Failure recovery: exceptions that do not end the process: a recoverable one is undone and the step repeated', async () => {
    const state = new Sum();
    await run(state, adding(5, { error: recoverable(), after: 3 }));
    expect(state).toMatchObject({ sum: 15, place: 5 });
    expect(count(state, 'step')).toBe(7);
  });

  it('Failure recovery: another exception is none of them: it is thrown, and nothing undone', async () => {
    const state = new Sum();
    await expect(run(state, adding(5, { error: lost, after: 3 }))).rejects.toBe(lost);
    expect(state).toMatchObject({ sum: 6, place: 4 });
    expect(state.calls).not.toContain('apply');
  });

  it('Relevant methods: snapshot and apply; save and load are not called', async () => {
    const state = new Sum();
    state.savesEachStep = true;
    await run(state, adding(2, { error: recoverable(), after: 1 }));
    expect(new Set(state.calls)).toEqual(new Set(['snapshot', 'sync', 'step', 'apply']));
  });

  it('Applied onto: the existing object, whatever the step left of it', async () => {
    const state = new Sum();
    const seen = new Set<Sum>();
    const step = adding(3, { error: recoverable(), after: 1 });
    const trained = await run(state, (each) => {
      seen.add(each);
      step(each);
    });
    expect([...seen, trained]).toEqual([state, state]);
    expect(trained).toBe(state);
  });

  it('Enabled by: snapshots that are not null; without them half a step stays, and sync follows all the same', async () => {
    const state = new SumWithoutSnapshot();
    await run(state, adding(5, { error: recoverable(), after: 3 }));
    expect(state).toMatchObject({ sum: 1 + 2 + 3 + 5, place: 5 });
    expect(count(state, 'step')).toBe(6);
    expect(count(state, 'apply')).toBe(0);
    expect(count(state, 'sync')).toBe(2);
  });

  it('Performance: light: no step waits for a store, though there is one', async () => {
    setCheckpointManager(new FileSystemCheckpointManager(directory));
    const state = new Sum();
    await run(state, adding(5, { error: recoverable(), after: 3 }));
    expect(await readdir(directory)).toEqual([]);
  });

  it('snapshot is called before each step, and before each rendezvous', async () => {
    const state = new Sum();
    await run(state, adding(2));
    expect(state.calls).toEqual([
      'snapshot',
      'sync',
      'snapshot',
      'step',
      'snapshot',
      'step',
      'snapshot',
      'step',
    ]);
  });

  it('apply is called on an exception of the step, before the workers meet again', async () => {
    const state = new Sum();
    await run(state, adding(2, { error: recoverable(), after: 1 }));
    expect(state.calls.slice(4, 10)).toEqual(['snapshot', 'step', 'apply', 'snapshot', 'sync', 'snapshot']);
  });
});

const MANAGERS = [
  {
    kind: 'directories',
    open: async (): Promise<TrainingCheckpointManager> => new FileSystemCheckpointManager(directory),
    fileOfNewest: async () => join(directory, '4', 'default'),
  },
  {
    kind: 'a run of Holdfast',
    open: async (): Promise<TrainingCheckpointManager> =>
      openCheckpointManager(pathToFileURL(directory).href),
    fileOfNewest: async () => {
      await using manager = await openCheckpointManager(pathToFileURL(directory).href);
      const details = await (await manager.latest())?.details();
      return join(directory, details?.files[0]?.key ?? expect.unreachable('there is a newest one'));
    },
  },
];

describe.each(MANAGERS)('Checkpoint, in $kind', ({ open, fileOfNewest }) => {
  let managers: TrainingCheckpointManager[];

  beforeEach(() => {
    managers = [];
  });

  afterEach(async () => {
    for (const manager of managers) {
      if (Symbol.asyncDispose in manager)
        await (manager as unknown as AsyncDisposable)[Symbol.asyncDispose]();
    }
  });

  /** A process of its own life: another manager, a state from the constructor. */
  async function life(step: (state: Sum) => void, state: Sum = new Sum()) {
    const manager = await open();
    managers.push(manager);
    setCheckpointManager(manager);
    state.savesEachStep = true;
    const error: unknown = await run(state, step).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    return { state, error, versions: (await manager.list()).map(({ version }) => version) };
  }

  it('Persistence: in the store: a new process goes on where the last one saved', async () => {
    const first = await life(adding(5, { error: lost, after: 3 }));
    expect(first).toMatchObject({ error: lost, versions: [2n, 1n, 0n] });
    const second = await life(adding(5));
    expect(second.state).toMatchObject({ sum: 15, place: 5 });
    expect(count(second.state, 'step')).toBe(3);
    expect(second.versions).toEqual([4n, 3n, 2n, 1n, 0n]);
  });

  it('Failure recovery: total loss, also without rollback; what a recoverable failure undoes is not read from the store', async () => {
    await life(adding(5, { error: lost, after: 3 }), new SumWithoutSnapshot());
    const step = adding(5, { error: recoverable(), after: 4 });
    const { state, error } = await life(step, new SumWithoutSnapshot());
    expect(error).toBeNull();
    expect(count(state, 'load')).toBe(1);
    expect(count(state, 'sync')).toBe(2);
    expect(state).toMatchObject({ sum: 1 + 2 + 3 + 4, place: 5 });
  });

  it('Relevant methods: save and load; apply is not called', async () => {
    await life(adding(1));
    const { state } = await life(adding(2));
    expect(new Set(state.calls)).toEqual(new Set(['snapshot', 'load', 'sync', 'step', 'save']));
  });

  it('Loaded onto: the initial state, once in a life', async () => {
    await life(adding(2));
    const state = new Sum();
    const { error } = await life(adding(4, { error: recoverable(), after: 3 }), state);
    expect(error).toBeNull();
    expect(state.calls.slice(0, 3)).toEqual(['snapshot', 'load', 'sync']);
    expect(count(state, 'load')).toBe(1);
    expect(state.sum).toBe(10);
  });

  it('Enabled by: setCheckpointManager, and a state or a coordinator that says so', async () => {
    const manager = await open();
    managers.push(manager);
    setCheckpointManager(manager);
    await run(new Sum(), adding(2));
    expect(await manager.list()).toEqual([]);

    class SavesOnce extends LocalCoordinator {
      #isDue = true;
      override shouldSaveCheckpoint(): boolean {
        const isDue = this.#isDue;
        this.#isDue = false;
        return isDue;
      }
    }
    await train(new SavesOnce(), adding(3), new Sum(), silent);
    expect((await manager.list()).map(({ version }) => version)).toEqual([0n]);
  });

  it('Performance: writing may take long: the next step waits until the checkpoint is durable', async () => {
    const seen: number[] = [];
    const step = adding(3);
    const manager = await open();
    managers.push(manager);
    setCheckpointManager(manager);
    const state = new Sum();
    state.savesEachStep = true;
    await train(
      new LocalCoordinator(),
      async (each: Sum) => {
        seen.push((await manager.list()).length);
        step(each);
      },
      state,
      silent,
    );
    expect(seen).toEqual([0, 1, 2, 3]);
  });

  it('save is called after each step that went well, if shouldSaveCheckpoint: not before it, as the table has it', async () => {
    const { state, versions } = await life(adding(2, { error: recoverable(), after: 1 }));
    expect(state.calls).toEqual([
      ...['snapshot', 'sync', 'snapshot', 'step', 'save', 'snapshot', 'step', 'apply'],
      ...['snapshot', 'sync', 'snapshot', 'step', 'save', 'snapshot', 'step'],
    ]);
    expect(versions).toEqual([1n, 0n]);
  });

  it('load is called at the beginning of the outer loop, before sync', async () => {
    await life(adding(1));
    const { state } = await life(adding(1));
    expect(state.calls).toEqual(['snapshot', 'load', 'sync', 'snapshot', 'step']);
  });

  it('load: the newest is damaged: the next older one is loaded, and only the steps between are repeated', async () => {
    await life(adding(5));
    const path = await fileOfNewest();
    await chmod(path, 0o600);
    await writeFile(path, '[15,');
    const { state, error, versions } = await life(adding(5));
    expect(error).toBeNull();
    expect(state.calls.slice(0, 5)).toEqual(['snapshot', 'load', 'apply', 'load', 'sync']);
    expect(count(state, 'step')).toBe(2);
    expect(state).toMatchObject({ sum: 15, place: 5 });
    expect(versions).toEqual([5n, 4n, 3n, 2n, 1n, 0n]);
  });
});
