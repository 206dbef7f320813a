/**
 * torchelastic's table "Rollback versus Checkpoint", row by row: first its statements about
 * rollbacks, then those about checkpoints, with each kind of manager. If torchelastic's code and
 * its table differ, the test shows the behaviour of Holdfast. docs/training.md gives the reason.
 */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import {
  FileSystemCheckpointManager,
  LocalCoordinator,
  setCheckpointManager,
  type TrainingCheckpointManager,
  train,
} from '@holdfast/training';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeOnMinio, describeOnS3 } from '../servers/describe-on-s3.ts';
import { credentialsEnv, type Policy, restrictedCredentials } from '../servers/s3-access.ts';
import { bucketPlace, type CheckpointPlace, directoryPlace, localRunPlace } from './checkpoint-place.ts';
import { adding, count, lost, recoverable, run, Sum, SumWithoutSnapshot, silent } from './table-state.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-rollback-table-'));
});

afterEach(async () => {
  setCheckpointManager(null);
  await rm(directory, { recursive: true });
});

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

  it('Failure recovery: another exception does not count: it is thrown, and nothing undone', async () => {
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

/** The same number of bytes, without meaning. */
const garble = (bytes: Uint8Array) => Buffer.alloc(bytes.length, '[');
const cutShort = (bytes: Uint8Array) => bytes.subarray(0, bytes.length - 1);
const takeAway = () => null;

/** The result of a process. A later process knows only what is in the store. */
interface Life {
  readonly state: Sum;
  readonly error: unknown;
  /** Versions of the checkpoints that exist afterwards, newest first. */
  readonly versions: readonly bigint[];
}

/** Trains as a new process would: with a new manager, and a state from the constructor. */
async function live(place: CheckpointPlace, step: (state: Sum) => void, state = new Sum()): Promise<Life> {
  await using open = await place.open();
  setCheckpointManager(open.manager);
  state.savesEachStep = true;
  const error: unknown = await run(state, step).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  return { state, error, versions: await versionsOf(open.manager) };
}

async function versionsOf(manager: TrainingCheckpointManager): Promise<bigint[]> {
  return (await manager.list()).map(({ version }) => version);
}

/** Fails once in the middle of a save with a recoverable error, and does not close the stream. */
class SumFailingSecondSave extends Sum {
  abandoned: WritableStreamDefaultWriter<Uint8Array> | null = null;

  override async save(stream: WritableStream<Uint8Array>): Promise<void> {
    if (count(this, 'save') !== 1) return super.save(stream);
    this.calls.push('save');
    this.abandoned = stream.getWriter();
    await this.abandoned.write(Buffer.from('[3'));
    throw recoverable();
  }
}

/** The table's statements about checkpoints. `begin` makes a place without checkpoints. */
function checkpointRows(begin: () => Promise<CheckpointPlace>): void {
  let place: CheckpointPlace;

  beforeEach(async () => {
    place = await begin();
  });

  const life = (step: (state: Sum) => void, state?: Sum) => live(place, step, state);

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
    const { state, error } = await life(adding(4, { error: recoverable(), after: 3 }));
    expect(error).toBeNull();
    expect(state.calls.slice(0, 3)).toEqual(['snapshot', 'load', 'sync']);
    expect(count(state, 'load')).toBe(1);
    expect(state.sum).toBe(10);
  });

  it('Enabled by: setCheckpointManager, and a state or a coordinator that says so', async () => {
    await using open = await place.open();
    setCheckpointManager(open.manager);
    await run(new Sum(), adding(2));
    expect(await versionsOf(open.manager)).toEqual([]);

    class SavesOnce extends LocalCoordinator {
      #isDue = true;
      override shouldSaveCheckpoint(): boolean {
        const isDue = this.#isDue;
        this.#isDue = false;
        return isDue;
      }
    }
    await train(new SavesOnce(), adding(3), new Sum(), silent);
    expect(await versionsOf(open.manager)).toEqual([0n]);
  });

  it('Performance: writing may take long: the next step waits until the checkpoint is durable', async () => {
    const seen: number[] = [];
    const step = adding(3);
    await using open = await place.open();
    setCheckpointManager(open.manager);
    const state = new Sum();
    state.savesEachStep = true;
    const lookAndStep = async (each: Sum) => {
      seen.push((await open.manager.list()).length);
      step(each);
    };
    await train(new LocalCoordinator(), lookAndStep, state, silent);
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

  it('save: one that fails for a while is discarded: its stream takes no more, the step stays, and the next one is whole', async () => {
    const saving = new SumFailingSecondSave();
    const { error, versions } = await life(adding(3, { error: lost, after: 2 }), saving);
    expect({ error, versions }).toEqual({ error: lost, versions: [0n] });
    await expect(saving.abandoned?.write(Buffer.from(',2]'))).rejects.toThrow('was discarded');
    const { state, ...next } = await life(adding(3));
    expect(next).toEqual({ error: null, versions: [2n, 1n, 0n] });
    // The step that was not saved, the one after it, and the end.
    expect(count(state, 'step')).toBe(3);
  });

  it('load is called at the beginning of the outer loop, before sync', async () => {
    await life(adding(1));
    const { state } = await life(adding(1));
    expect(state.calls).toEqual(['snapshot', 'load', 'sync', 'snapshot', 'step']);
  });

  it.each([
    { what: 'damaged', change: garble },
    { what: 'cut short', change: cutShort },
    { what: 'without its bytes', change: takeAway },
  ])(
    'load: the newest is $what: the next older one is loaded, and only the steps between are repeated',
    async ({ change }) => {
      await life(adding(3));
      await place.damage(2n, change);
      const { state, error, versions } = await life(adding(3));
      expect(error).toBeNull();
      expect(state.calls.slice(0, 5)).toEqual(['snapshot', 'load', 'apply', 'load', 'sync']);
      expect(count(state, 'step')).toBe(2);
      expect(state).toMatchObject({ sum: 6, place: 3 });
      expect(versions).toEqual([3n, 2n, 1n, 0n]);
    },
  );

  it('load: none is whole: the error is that of the newest, no step is done, and nothing is written', async () => {
    await life(adding(2));
    await place.damage(0n, takeAway);
    await place.damage(1n, garble);
    const { state, error, versions } = await life(adding(2));
    expect(error).toMatchObject({ code: 'Corrupt' });
    expect(inspect(error)).toMatch(/checkpoint 1 could not be loaded|version_1\//);
    expect(state.calls).toEqual(['snapshot', 'load', 'apply', 'load']);
    expect(versions).toEqual([1n, 0n]);
  });
}

describe('Checkpoint, in directories', () => checkpointRows(async () => directoryPlace(directory)));

describe('Checkpoint, in a run of Holdfast', () => checkpointRows(async () => localRunPlace(directory)));

describeOnS3('Checkpoint, in a run in a bucket', (server) => {
  checkpointRows(async () => bucketPlace(await server().newBucket()));
});

/** A policy that denies only `action`, on the objects that hold the checkpoints' bytes. */
function refusing(action: string, bucket: string): Policy {
  return {
    Statement: [
      { Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] },
      { Effect: 'Deny', Action: [action], Resource: [`arn:aws:s3:::${bucket}/run/version_*`] },
    ],
  };
}

describeOnMinio('Checkpoint, in a bucket that refuses', {}, (server) => {
  async function livesWithout(action: string): Promise<{ refused: Life; after: Life }> {
    const bucket = await server().newBucket();
    const place = bucketPlace(bucket);
    await live(place, adding(2));
    const credentials = await restrictedCredentials(server(), refusing(action, bucket.bucket));
    const refused = await live(bucketPlace(bucket, credentialsEnv(credentials)), adding(4));
    return { refused, after: await live(place, adding(4)) };
  }

  it('load: a refusal says nothing about bytes: it is thrown at once, no older one is tried, no step is done', async () => {
    const { refused, after } = await livesWithout('s3:GetObject');
    expect(refused.error).toMatchObject({ code: 'Denied' });
    expect(refused.state.calls).toEqual(['snapshot', 'load']);
    expect(refused.versions).toEqual([1n, 0n]);
    expect(after).toMatchObject({ error: null, state: { sum: 10 }, versions: [3n, 2n, 1n, 0n] });
  });

  it('save: a refusal will not pass: it ends the training after the step that is done, and what was saved stays', async () => {
    const { refused, after } = await livesWithout('s3:PutObject');
    expect(refused.error).toMatchObject({ code: 'Denied' });
    expect(refused.state).toMatchObject({ sum: 6, place: 3 });
    expect(refused.state.calls).toEqual(['snapshot', 'load', 'sync', 'snapshot', 'step', 'save']);
    expect(refused.versions).toEqual([1n, 0n]);
    expect(count(after.state, 'step')).toBe(3);
    expect(after).toMatchObject({ error: null, state: { sum: 10 }, versions: [3n, 2n, 1n, 0n] });
  });
});
